// Rows of LENGTH elements in planes (`planes.rs`).

// LENGTH integers of 8 bits, then a scale for each 32.
template <u32 LENGTH>
struct Q8_0Planes {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        float d = half_at(row + LENGTH + i / 32 * 2);
        u64 q = *(const u64*)(row + i);
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = float(i8(byte_of(q, j))) * d;
    }
    static __device__ __forceinline__ void parts8(const u8* row, u32 i, float q[8], float& scale, float& minimum) {
        scale = half_at(row + LENGTH + i / 32 * 2);
        minimum = 0.0f;
        floats_of(*(const u64*)(row + i) ^ 0x8080808080808080ull, 128.0f, q);
    }
};

// For each 32 elements 16 bytes: the low four bits of element j and of element 16 + j in byte j. Then 8 bytes for each:
// the high two bits of element 16 n + 4 w + j in byte 4 n + j, from bit 2 w on. Then a scale of 8 bits for each 16
// elements, and one of 16 for each 256.
template <u32 LENGTH>
struct Q6KPlanes {
    static const u32 HIGHS = LENGTH / 2, SCALES = LENGTH / 4 * 3, FACTORS = SCALES + LENGTH / 16;
    static __device__ __forceinline__ float scale_of(const u8* row, u32 i) {
        return half_at(row + FACTORS + i / 256 * 2) * float(i8(row[SCALES + i / 16]));
    }
    static __device__ __forceinline__ u64 six_bits(const u8* row, u32 i) {
        u32 e = i % 32, n = e / 16, by = e % 16 / 4 * 2;
        u64 low = *(const u64*)(row + i / 32 * 16 + e % 16) >> (4 * n) & LOW_NIBBLES;
        u32 pairs = *(const u32*)(row + HIGHS + i / 32 * 8 + 4 * n);
        u64 high = u64(pairs >> by & 0x03030303u) | u64(pairs >> (by + 2) & 0x03030303u) << 32;
        return low | high << 4;
    }
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        float ds = scale_of(row, i);
        u64 q = six_bits(row, i);
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = ds * float(int(byte_of(q, j)) - 32);
    }
    static __device__ __forceinline__ void parts8(const u8* row, u32 i, float q[8], float& scale, float& minimum) {
        scale = scale_of(row, i);
        minimum = 0.0f;
        floats_of(six_bits(row, i), 32.0f, q);
    }
};
template <u32 LENGTH>
constexpr bool IN_PARTS<Q8_0Planes<LENGTH>> = true;
template <u32 LENGTH>
constexpr bool IN_PARTS<Q6KPlanes<LENGTH>> = true;
