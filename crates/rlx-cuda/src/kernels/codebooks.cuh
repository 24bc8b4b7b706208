// Formats of indices into books, as rlx-core's `codebooks` has them. A book is an array of groups with the level of
// each value in 2 bits (8 values) or 3 (4 values); those that a kernel reads stand in front, each with its HAS_ word.
__device__ __forceinline__ u32 word_at(const u8* at) { return u32(*(const u16*)at) | u32(*(const u16*)(at + 2)) << 16; }

// Eight signs of seven bits: the eighth makes the number of negative values even.
__device__ __forceinline__ u32 even_signs(u32 seven) {
    seven &= 127;
    return seven | (__popc(seven) & 1) << 7;
}

// The scale of a run: d times s + 1/2 of four bits, times `unit`, a power of two.
__device__ __forceinline__ float half_scale(float d, u32 s, float unit) { return d * (0.5f + float(s & 15)) * unit; }

// d times the magnitudes of a group of iq2: 8, 25 and 43 by level.
__device__ __forceinline__ void eight(float d, u32 group, u32 signs, float y[8]) {
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
        float v = d * float(0x2b1908u >> (8 * (group >> (2 * j) & 3)) & 255);
        y[j] = signs >> j & 1 ? -v : v;
    }
}

// d times two groups of iq3, whose magnitudes go up by STEP from FIRST, the last of them by LAST more.
template <u32 FIRST, u32 STEP, u32 LAST>
__device__ __forceinline__ void two_fours(float d, u32 a, u32 b, u32 signs, float y[8]) {
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
        u32 level = (j < 4 ? a : b) >> (3 * (j % 4)) & 7;
        float v = d * float(FIRST + STEP * level + (level == 7 ? LAST : 0));
        y[j] = signs >> j & 1 ? -v : v;
    }
}

// d times the values of a group of iq1: -1, 0 and 1, each moved by an eighth.
__device__ __forceinline__ void eight_ones(float d, u32 group, bool down, float y[8]) {
    float delta = down ? -0.125f : 0.125f;
#pragma unroll
    for (u32 j = 0; j < 8; j++) y[j] = d * (float(int(group >> (2 * j) & 3) - 1) + delta);
}

#ifdef HAS_IQ1
struct Iq1S {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 50;
        u32 part = i % 256 / 8, h = *(const u16*)(b + 34 + 2 * (part / 4));
        float d = half_at(b) * float(2 * (h >> 12 & 7) + 1);
        eight_ones(d, IQ1[b[2 + part] | (h >> (3 * (part % 4)) & 7) << 8], h >> 15, y);
    }
};
struct Iq1M {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 56;
        u32 part = i % 256 / 8;
        const u16* s = (const u16*)(b + 48);
        float d = float_of_half(u16(s[0] >> 12 | (s[1] >> 8 & 0xf0) | (s[2] >> 4 & 0xf00) | (s[3] & 0xf000)));
        u32 scale = s[part / 8] >> (3 * (part / 2 % 4)) & 7, h = b[32 + part / 2] >> (4 * (part % 2));
        eight_ones(d * float(2 * scale + 1), IQ1[b[part] | (h & 7) << 8], h & 8, y);
    }
};
#endif
#ifdef HAS_IQ2_XXS
struct Iq2Xxs {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 66;
        u32 run = i % 256 / 32, part = i % 32 / 8, g = word_at(b + 6 + 8 * run);
        eight(half_scale(half_at(b), g >> 28, 0.25f), IQ2_XXS[b[2 + 8 * run + part]], even_signs(g >> (7 * part)), y);
    }
};
#endif
#ifdef HAS_IQ2_XS
struct Iq2Xs {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 74;
        u32 part = i % 256 / 8, q = *(const u16*)(b + 2 + 2 * part);
        float d = half_scale(half_at(b), b[66 + part / 4] >> (4 * (part / 2 % 2)), 0.25f);
        eight(d, IQ2_XS[q & 511], even_signs(q >> 9), y);
    }
};
#endif
#ifdef HAS_IQ2_S
struct Iq2S {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 82;
        u32 part = i % 256 / 8, high = b[66 + part / 4] >> (2 * (part % 4)) & 3;
        float d = half_scale(half_at(b), b[74 + part / 4] >> (4 * (part / 2 % 2)), 0.25f);
        eight(d, IQ2_S[b[2 + part] | high << 8], b[34 + part], y);
    }
};
#endif
#ifdef HAS_IQ3_XXS
struct Iq3Xxs {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 98;
        u32 part = i % 256 / 8, g = word_at(b + 66 + 4 * (part / 4));
        const u8* index = b + 2 + 2 * part;
        float d = half_scale(half_at(b), g >> 28, 0.5f);
        two_fours<4, 8, 2>(d, IQ3_XXS[index[0]], IQ3_XXS[index[1]], even_signs(g >> (7 * (part % 4))), y);
    }
};
#endif
#ifdef HAS_IQ3_S
struct Iq3S {
    static __device__ __forceinline__ void decode8(const u8* row, u32 i, float y[8]) {
        const u8* b = row + i / 256 * 110;
        u32 part = i % 256 / 8, ninth = b[66 + part / 4] >> (2 * (part % 4));
        const u8* index = b + 2 + 2 * part;
        float d = half_at(b) * float(2 * (b[106 + part / 8] >> (4 * (part / 4 % 2)) & 15) + 1);
        u32 first = IQ3_S[index[0] | (ninth & 1) << 8], second = IQ3_S[index[1] | (ninth >> 1 & 1) << 8];
        two_fours<1, 2, 0>(d, first, second, b[74 + part], y);
    }
};
#endif
