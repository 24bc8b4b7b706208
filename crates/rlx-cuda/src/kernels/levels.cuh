// Formats whose nibbles are levels of a list, and ternary ones, as rlx-core's `codebooks` and `floats` have them.

// Levels of iq4 by nibble: eight bytes of each word.
__device__ __forceinline__ float non_linear(u32 q) {
    u64 eight = q < 8 ? 0xf6eaddcfbfad9881ull : 0x7159453526190d01ull;
    return float(i8(eight >> (8 * (q & 7))));
}
struct Iq4Nl {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 32 * 18;
        float d = half_at(b);
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = d * non_linear(b[2 + i % 16 + j] >> (i % 32 / 16 * 4) & 15);
    }
};
struct Iq4Xs {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 136;
        u32 run = i % 256 / 32, high = *(const u16*)(b + 2) >> (2 * run) & 3;
        u32 scale = (b[4 + run / 2] >> (4 * (run % 2)) & 15) | high << 4;
        float d = half_at(b) * float(int(scale) - 32);
        const u8* q = b + 8 + 16 * run + i % 16;
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = d * non_linear(q[j] >> (i % 32 / 16 * 4) & 15);
    }
};

// Twice the value of E2M1 by nibble: a sign, and magnitudes 0, 1, 2, 3, 4, 6, 8 and 12.
__device__ __forceinline__ float fp4(u32 q) {
    int magnitude = int(0xc8643210u >> (4 * (q & 7)) & 15);
    return float(q & 8 ? -magnitude : magnitude);
}
struct Mxfp4 {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 32 * 17;
        // 2^(e - 128): 0 and 1 are denormal.
        float d = __uint_as_float(b[0] < 2 ? 0x00200000u << b[0] : u32(b[0] - 1) << 23);
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = d * fp4(b[1 + i % 16 + j] >> (i % 32 / 16 * 4) & 15);
    }
};
struct Nvfp4 {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 64 * 36;
        u32 part = i % 64 / 16;
        // Half of an E4M3 float whose sign is not looked at; the last of them is 0.
        u32 e = b[part] & 127, exponent = e >> 3;
        float fraction = float(e & 7);
        float d = exponent == 0 ? fraction * 0.0009765625f : (1.0f + fraction * 0.125f) * __uint_as_float((exponent + 119) << 23);
        if (b[part] == 127) d = 0.0f;
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = d * fp4(b[4 + 8 * part + j] >> (i % 16 / 8 * 4) & 15);
    }
};

struct Tq1_0 {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 54;
        float d = half_at(b + 52);
        u32 e = i % 256;
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            // Five digits of 32 bytes, five of 16, four of 4.
            u32 first = e < 160 ? 0 : e < 240 ? 160 : 240, bytes = e < 160 ? 32 : e < 240 ? 16 : 4;
            u32 digit = (e - first + j) / bytes, at = (e < 160 ? 0 : e < 240 ? 32 : 48) + (e - first + j) % bytes;
            u32 power = u32(0x511b090301ull >> (8 * digit)) & 255;
            y[j] = d * float(int((b[at] * power & 255) * 3 >> 8) - 1);
        }
    }
};
struct Tq2_0 {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 66;
        u32 run = i % 256 / 32;
        const u8* q = b + 32 * (run / 4) + i % 32;
        float d = half_at(b + 64);
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = d * float(int(q[j] >> (2 * (run % 4)) & 3) - 1);
    }
};
