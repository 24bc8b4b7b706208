// Packed weights, as rlx-core's `formats` has them: `decode8` gives elements i to i + 7 of a row, i a multiple of 8.
// Each product is rounded as there: `d * scale`, then times the integer, then less the minimum. `one` gives an element
// of a type whose rows may end within eight.
struct F32 {
    static __device__ __forceinline__ float one(const u8* row, u32 i) { return ((const float*)row)[i]; }
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const float* x = (const float*)row + i;
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = x[j];
    }
};
struct F16 {
    static __device__ __forceinline__ float one(const u8* row, u32 i) { return float_of_half(((const u16*)row)[i]); }
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u16* x = (const u16*)row + i;
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = float_of_half(x[j]);
    }
};
struct Bf16 {
    static __device__ __forceinline__ float one(const u8* row, u32 i) { return float_of_bf16(((const u16*)row)[i]); }
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u16* x = (const u16*)row + i;
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = float_of_bf16(x[j]);
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
        u32 shift = i % 32 / 16 * 4;
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            int q = int(b[QUANTS + i % 16 + j] >> shift & 15) | int((high >> j & 1) << 4);
            y[j] = MIN ? __fadd_rn(__fmul_rn(float(q), d), m) : float(q - ZERO) * d;
        }
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
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = float(i8(b[2 + i % 32 + j])) * d;
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
        const u8* q = b + 16 + 32 * (part / 8) + part % 2 * 16 + e % 16;
#pragma unroll
        for (u32 j = 0; j < 8; j++) y[j] = __fadd_rn(__fmul_rn(ds, float(q[j] >> (part / 2 % 4 * 2) & 3)), -mt);
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
        const u8* q = b + 32 + 32 * (part / 8) + at;
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            u32 third = b[at + j] >> (part / 2) & 1;
            y[j] = ds * float(int(q[j] >> (part / 2 % 4 * 2) & 3 | third << 2) - 4);
        }
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
        const u8* q = b + QUANTS + 32 * (run / 2) + e % 32;
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            u32 x = q[j] >> (run % 2 * 4) & 15;
            if (FIFTH) x |= (b[16 + e % 32 + j] >> run & 1) << 4;
            y[j] = __fadd_rn(__fmul_rn(ds, float(x)), -mt);
        }
    }
};
typedef K45<144, 16, false> Q4K;
typedef K45<176, 48, true> Q5K;
struct Q6K {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 210;
        u32 e = i % 256, half = e / 128, run = e / 32 % 4, l = e % 32;
        float ds = half_at(b + 208) * float(i8(b[192 + e / 16]));
        const u8* low = b + 64 * half + 32 * (run % 2) + l;
        const u8* high = b + 128 + 32 * half + l;
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            int q = int(low[j] >> (4 * (run / 2)) & 15 | (high[j] >> (2 * run) & 3) << 4) - 32;
            y[j] = ds * float(q);
        }
    }
};
