// Packed weights, as rlx-core's `formats` has them: `decode8` gives elements i to i + 7 of a row, i a multiple of 8.
// Each product is rounded as there: `d * scale`, then times the integer, then less the minimum. `one` gives an element
// of a type whose rows may end within eight. `parts8` gives integers instead, and what they are multiplied with and added
// to: a product's sum needs these once for eight. K, the length of a row, says whether rows of floats begin at whole words.

// Eight bytes that begin at a multiple of ALIGN.
template <u32 ALIGN>
__device__ __forceinline__ u64 bytes8(const u8* at) {
    if (ALIGN == 8) return *(const u64*)at;
    if (ALIGN == 4) return u64(((const u32*)at)[0]) | u64(((const u32*)at)[1]) << 32;
    // Words around them: the third one has bytes of these eight if they begin within a word.
    const u32* words = (const u32*)(at - (size_t(at) & 2));
    u32 by = (size_t(at) & 2) * 8;
    u32 a = words[0], b = words[1], c = by ? words[2] : 0;
    return u64(__funnelshift_r(a, b, by)) | u64(__funnelshift_r(b, c, by)) << 32;
}
__device__ __forceinline__ u32 byte_of(u64 bytes, u32 j) { return u32(bytes >> (8 * j)) & 255; }

// Eight bytes of integers less `zero`. A byte is the last one of a float's from 2^23 on, which takes one instruction where
// a conversion waits for the few units that do it.
__device__ __forceinline__ void floats_of(u64 bytes, float zero, float y[8]) {
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
        u32 word = j < 4 ? u32(bytes) : u32(bytes >> 32);
        y[j] = __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7650u + j % 4)) - (8388608.0f + zero);
    }
}
#define LOW_NIBBLES 0x0f0f0f0f0f0f0f0full
#define LOW_PAIRS 0x0303030303030303ull
#define LOW_BITS 0x0101010101010101ull

// Eight numbers of 16 bits of a row, as two words of four.
struct Eight16 {
    u64 words[2];
    __device__ __forceinline__ Eight16(const u8* row, u32 i) {
#if K % 8 == 0
        const u64* at = (const u64*)((const u16*)row + i);
        words[0] = at[0], words[1] = at[1];
#else
        words[0] = bytes8<2>(row + 2 * i), words[1] = bytes8<2>(row + 2 * i + 8);
#endif
    }
    __device__ __forceinline__ u16 at(u32 j) const { return u16(words[j / 4] >> (16 * (j % 4))); }
};
struct F32 {
    static __device__ __forceinline__ float one(const u8* row, u32 i) { return ((const float*)row)[i]; }
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const float* x = (const float*)row + i;
#if K % 4 == 0
        float4 a = ((const float4*)x)[0], b = ((const float4*)x)[1];
        y[0] = a.x, y[1] = a.y, y[2] = a.z, y[3] = a.w, y[4] = b.x, y[5] = b.y, y[6] = b.z, y[7] = b.w;
#else
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = x[j];
#endif
    }
};
struct F16 {
    static __device__ __forceinline__ float of(u16 x) { return float_of_half(x); }
    static __device__ __forceinline__ float one(const u8* row, u32 i) { return float_of_half(((const u16*)row)[i]); }
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        Eight16 x(row, i);
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = float_of_half(x.at(j));
    }
};
struct Bf16 {
    static __device__ __forceinline__ float of(u16 x) { return float_of_bf16(x); }
    static __device__ __forceinline__ float one(const u8* row, u32 i) { return float_of_bf16(((const u16*)row)[i]); }
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        Eight16 x(row, i);
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = float_of_bf16(x.at(j));
    }
};
// Blocks of 32 nibbles, the low ones first, with an optional fifth bit of each in `high`.
template <u32 BYTES, u32 QUANTS, u32 HIGH, int ZERO, bool MIN>
struct Nibbles {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 32 * BYTES;
        float d = half_at(b);
        float m = MIN ? half_at(b + 2) : 0.0f;
        u32 high = 0;
        if (HIGH) high = (u32(*(const u16*)(b + HIGH)) | u32(*(const u16*)(b + HIGH + 2)) << 16) >> (i % 32);
        u64 q8 = bytes8<BYTES % 8 == 0 ? 8 : BYTES % 4 == 0 ? 4 : 2>(b + QUANTS + i % 16) >> (i % 32 / 16 * 4);
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            int q = int(byte_of(q8, j) & 15) | int((high >> j & 1) << 4);
            y[j] = MIN ? __fadd_rn(__fmul_rn(float(q), d), m) : float(q - ZERO) * d;
        }
    }
    static __device__ __forceinline__ void parts8(const u8* row, u32 i, float q[8], float& scale, float& minimum) {
        const u8* b = row + i / 32 * BYTES;
        scale = half_at(b);
        minimum = MIN ? half_at(b + 2) : 0.0f;
        u64 x = bytes8<BYTES % 8 == 0 ? 8 : BYTES % 4 == 0 ? 4 : 2>(b + QUANTS + i % 16) >> (i % 32 / 16 * 4) & LOW_NIBBLES;
        if (HIGH) {
            u32 bits = u32(b[HIGH + i % 32 / 8]);
            // Bit j goes to bit 4 of byte j.
            u32 low = (bits & 15) * 0x00204081u & 0x01010101u, high = (bits >> 4) * 0x00204081u & 0x01010101u;
            x |= (u64(low) | u64(high) << 32) << 4;
        }
        floats_of(x, float(ZERO), q);
    }
};
typedef Nibbles<18, 2, 0, 8, false> Q4_0;
typedef Nibbles<20, 4, 0, 0, true> Q4_1;
typedef Nibbles<22, 6, 2, 16, false> Q5_0;
typedef Nibbles<24, 8, 4, 0, true> Q5_1;
struct Q8_0 {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 32 * 34;
        float d = half_at(b);
        u64 q = bytes8<2>(b + 2 + i % 32);
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = float(i8(byte_of(q, j))) * d;
    }
    static __device__ __forceinline__ void parts8(const u8* row, u32 i, float q[8], float& scale, float& minimum) {
        const u8* b = row + i / 32 * 34;
        scale = half_at(b);
        minimum = 0.0f;
        floats_of(bytes8<2>(b + 2 + i % 32) ^ 0x8080808080808080ull, 128.0f, q);
    }
};
struct Q1_0 {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 128 * 18;
        float d = half_at(b);
        u32 bits = b[2 + i % 128 / 8];
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = bits >> j & 1 ? d : -d;
    }
};
struct Q2_0 {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 64 * 18;
        float d = half_at(b);
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = float(int(b[2 + i % 64 / 4 + j / 4] >> (2 * (j % 4)) & 3) - 1) * d;
    }
};
struct Q2K {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 84;
        u32 e = i % 256, part = e / 16;
        float ds = __fmul_rn(half_at(b + 80), float(b[part] & 15)), mt = __fmul_rn(half_at(b + 82), float(b[part] >> 4));
        u64 q = bytes8<4>(b + 16 + 32 * (part / 8) + part % 2 * 16 + e % 16) >> (part / 2 % 4 * 2);
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = __fadd_rn(__fmul_rn(ds, float(byte_of(q, j) & 3)), -mt);
    }
    static __device__ __forceinline__ void parts8(const u8* row, u32 i, float q[8], float& scale, float& minimum) {
        const u8* b = row + i / 256 * 84;
        u32 e = i % 256, part = e / 16;
        scale = half_at(b + 80) * float(b[part] & 15);
        minimum = -half_at(b + 82) * float(b[part] >> 4);
        u64 x = bytes8<4>(b + 16 + 32 * (part / 8) + part % 2 * 16 + e % 16) >> (part / 2 % 4 * 2);
        floats_of(x & LOW_PAIRS, 0.0f, q);
    }
};
struct Q3K {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 110;
        u32 e = i % 256, part = e / 16;
        const u8* s = b + 96;
        u32 scale = (s[part % 8] >> (4 * (part / 8)) & 15) | (s[8 + part % 4] >> (2 * (part / 4)) & 3) << 4;
        float ds = half_at(b + 108) * float(int(scale) - 32);
        u32 at = part % 2 * 16 + e % 16;
        u64 q = bytes8<2>(b + 32 + 32 * (part / 8) + at) >> (part / 2 % 4 * 2);
        u64 high = bytes8<2>(b + at) >> (part / 2);
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            y[j] = ds * float(int(byte_of(q, j) & 3 | (byte_of(high, j) & 1) << 2) - 4);
        }
    }
    static __device__ __forceinline__ void parts8(const u8* row, u32 i, float q[8], float& scale, float& minimum) {
        const u8* b = row + i / 256 * 110;
        u32 e = i % 256, part = e / 16;
        const u8* s = b + 96;
        u32 bits = (s[part % 8] >> (4 * (part / 8)) & 15) | (s[8 + part % 4] >> (2 * (part / 4)) & 3) << 4;
        scale = half_at(b + 108) * float(int(bits) - 32);
        minimum = 0.0f;
        u32 at = part % 2 * 16 + e % 16;
        u64 x = bytes8<2>(b + 32 + 32 * (part / 8) + at) >> (part / 2 % 4 * 2) & LOW_PAIRS;
        u64 high = bytes8<2>(b + at) >> (part / 2) & LOW_BITS;
        floats_of(x | high << 2, 4.0f, q);
    }
};
// Scale and minimum of a run of 32, six bits each.
__device__ __forceinline__ void scale_min(const u8* s, u32 run, float& scale, float& min) {
    if (run < 4) {
        scale = float(s[run] & 63);
        min = float(s[run + 4] & 63);
    } else {
        scale = float(s[run + 4] & 15 | s[run - 4] >> 6 << 4);
        min = float(s[run + 4] >> 4 | s[run] >> 6 << 4);
    }
}
template <u32 BYTES, u32 QUANTS, bool FIFTH>
struct K45 {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * BYTES;
        u32 e = i % 256, run = e / 32;
        float scale, min;
        scale_min(b + 4, run, scale, min);
        float ds = __fmul_rn(half_at(b), scale), mt = __fmul_rn(half_at(b + 2), min);
        u64 q = bytes8<8>(b + QUANTS + 32 * (run / 2) + e % 32) >> (run % 2 * 4);
        u64 high = FIFTH ? bytes8<8>(b + 16 + e % 32) >> run : 0;
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            u32 x = byte_of(q, j) & 15;
            if (FIFTH) x |= (byte_of(high, j) & 1) << 4;
            y[j] = __fadd_rn(__fmul_rn(ds, float(x)), -mt);
        }
    }
    static __device__ __forceinline__ void parts8(const u8* row, u32 i, float q[8], float& scale, float& minimum) {
        const u8* b = row + i / 256 * BYTES;
        u32 e = i % 256, run = e / 32;
        scale_min(b + 4, run, scale, minimum);
        scale *= half_at(b);
        minimum *= -half_at(b + 2);
        u64 x = bytes8<8>(b + QUANTS + 32 * (run / 2) + e % 32) >> (run % 2 * 4) & LOW_NIBBLES;
        if (FIFTH) x |= (bytes8<8>(b + 16 + e % 32) >> run & LOW_BITS) << 4;
        floats_of(x, 0.0f, q);
    }
};
typedef K45<144, 16, false> Q4K;
typedef K45<176, 48, true> Q5K;
struct Q6K {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 210;
        u32 e = i % 256, half = e / 128, run = e / 32 % 4, l = e % 32;
        float ds = half_at(b + 208) * float(i8(b[192 + e / 16]));
        u64 low = bytes8<2>(b + 64 * half + 32 * (run % 2) + l) >> (4 * (run / 2));
        u64 high = bytes8<2>(b + 128 + 32 * half + l) >> (2 * run);
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            int q = int(byte_of(low, j) & 15 | (byte_of(high, j) & 3) << 4) - 32;
            y[j] = ds * float(q);
        }
    }
    static __device__ __forceinline__ void parts8(const u8* row, u32 i, float q[8], float& scale, float& minimum) {
        const u8* b = row + i / 256 * 210;
        u32 e = i % 256, half = e / 128, run = e / 32 % 4, l = e % 32;
        scale = half_at(b + 208) * float(i8(b[192 + e / 16]));
        minimum = 0.0f;
        u64 low = bytes8<2>(b + 64 * half + 32 * (run % 2) + l) >> (4 * (run / 2)) & LOW_NIBBLES;
        u64 high = bytes8<2>(b + 128 + 32 * half + l) >> (2 * run) & LOW_PAIRS;
        floats_of(low | high << 4, 32.0f, q);
    }
};

// Types with `parts8`.
template <class F>
constexpr bool IN_PARTS = false;
template <u32 BYTES, u32 QUANTS, u32 HIGH, int ZERO, bool MIN>
constexpr bool IN_PARTS<Nibbles<BYTES, QUANTS, HIGH, ZERO, MIN>> = true;
template <u32 BYTES, u32 QUANTS, bool FIFTH>
constexpr bool IN_PARTS<K45<BYTES, QUANTS, FIFTH>> = true;
template <>
constexpr bool IN_PARTS<Q8_0> = true;
template <>
constexpr bool IN_PARTS<Q2K> = true;
template <>
constexpr bool IN_PARTS<Q3K> = true;
template <>
constexpr bool IN_PARTS<Q6K> = true;
