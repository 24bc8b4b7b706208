// Sums of 32 elements of a row of packed weights, which a lane reads at once. `at` says where chunk c of CHUNK of them
// begins; x has them in that order, and `totals` are its sums by chunk.
//
// Bits of an integer stand at the head of a float's fraction where they can: 1 + q / 2^bits takes one instruction to make,
// where a conversion waits for the few units that do it. What that adds to a sum is taken away once, with the totals.
__device__ __forceinline__ float from_one(u32 word, u32 j) {
    return __uint_as_float(__byte_perm(word, 0x3f000000u, 0x7044u | j << 8));
}
// The seven bits of each byte that stand there.
#define FROM_ONE(bits) ((bits) | 0x80808080u)

// Bit j of four at byte j.
__device__ __forceinline__ u32 bit_a_byte(u32 bits) { return (bits & 15) * 0x00204081u & 0x01010101u; }

// Words from an even place on.
template <u32 COUNT>
__device__ __forceinline__ void words_at(const u8* at, u32 y[COUNT]) {
    const u32* words = (const u32*)(at - (size_t(at) & 2));
    u32 by = (size_t(at) & 2) * 8, x[COUNT + 1];
#pragma unroll
    for (u32 i = 0; i < COUNT; i++) x[i] = words[i];
    x[COUNT] = by ? words[COUNT] : 0;
#pragma unroll
    for (u32 i = 0; i < COUNT; i++) y[i] = __funnelshift_r(x[i], x[i + 1], by);
}

// Types that are read by eight.
template <class F>
struct Wide {
    static const u32 CHUNK = 32;
    static __device__ __forceinline__ u32 at(u32 t, u32) { return t * 32; }
    static __device__ __forceinline__ float sum(const u8* row, u32 t, const float* v, const float*) {
        float all = 0.0f;
#pragma unroll
        for (u32 i = 0; i < 32; i += 8) {
            float e[8], scale = 1.0f, minimum = 0.0f, sum = 0.0f, total = 0.0f;
            if constexpr (IN_PARTS<F>) {
                F::parts8(row, t * 32 + i, e, scale, minimum);
            } else {
                F::decode8(row, t * 32 + i, e);
            }
#pragma unroll
            for (u32 j = 0; j < 8; j++) {
                sum = fmaf(e[j], v[i + j], sum);
                total += v[i + j];
            }
            all = IN_PARTS<F> ? fmaf(scale, sum, fmaf(minimum, total, all)) : all + sum;
        }
        return all;
    }
};

// Eight elements of each quarter of a row: lanes beside each other read what is side by side.
template <class F>
struct WideHalves {
    static const u32 CHUNK = 8;
    static __device__ __forceinline__ u32 at(u32 t, u32 c) { return t * 8 + c * (K / 4); }
    static __device__ __forceinline__ float sum(const u8* row, u32 t, const float* v, const float*) {
        float all = 0.0f;
#pragma unroll
        for (u32 c = 0; c < 4; c++) {
            uint4 eight = *(const uint4*)(row + 2 * at(t, c));
            u32 words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
            for (u32 j = 0; j < 8; j++) all = fmaf(F::of(u16(words[j / 2] >> (j % 2 * 16))), v[8 * c + j], all);
        }
        return all;
    }
};
template <>
struct Wide<F16> : WideHalves<F16> {};
template <>
struct Wide<Bf16> : WideHalves<Bf16> {};

// A block: the low nibbles of 16 bytes, then the high ones.
template <u32 BYTES, u32 QUANTS, u32 HIGH, int ZERO, bool MIN>
struct Wide<Nibbles<BYTES, QUANTS, HIGH, ZERO, MIN>> {
    static const u32 CHUNK = 16, SHIFT = HIGH ? 2 : 3;
    static __device__ __forceinline__ u32 at(u32 t, u32 c) { return t * 32 + c * 16; }
    static __device__ __forceinline__ float sum(const u8* row, u32 t, const float* v, const float* totals) {
        const u8* b = row + t * BYTES;
        u32 words[4], high[1] = {0};
        words_at<4>(b + QUANTS, words);
        if (HIGH) words_at<1>(b + HIGH, high);
        float sum = 0.0f;
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 x = words[i] << SHIFT & 0x0f0f0f0fu << SHIFT, y = words[i] >> (4 - SHIFT) & 0x0f0f0f0fu << SHIFT;
            if (HIGH) {
                x |= bit_a_byte(high[0] >> (4 * i)) << 6;
                y |= bit_a_byte(high[0] >> (16 + 4 * i)) << 6;
            }
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                sum = fmaf(from_one(FROM_ONE(x), j), v[4 * i + j], sum);
                sum = fmaf(from_one(FROM_ONE(y), j), v[16 + 4 * i + j], sum);
            }
        }
        float total = totals[0] + totals[1], levels = float(128 >> SHIFT);
        sum = half_at(b) * (levels * (sum - total) - float(ZERO) * total);
        return MIN ? fmaf(half_at(b + 2), total, sum) : sum;
    }
};

template <>
struct Wide<Q8_0> {
    static const u32 CHUNK = 32;
    static __device__ __forceinline__ u32 at(u32 t, u32) { return t * 32; }
    static __device__ __forceinline__ float sum(const u8* row, u32 t, const float* v, const float*) {
        const u8* b = row + t * 34;
        u32 words[8];
        words_at<8>(b + 2, words);
        float sum = 0.0f;
#pragma unroll
        for (u32 i = 0; i < 8; i += 2) {
            float q[8];
            floats_of((u64(words[i]) | u64(words[i + 1]) << 32) ^ 0x8080808080808080ull, 128.0f, q);
#pragma unroll
            for (u32 j = 0; j < 8; j++) sum = fmaf(q[j], v[4 * i + j], sum);
        }
        return half_at(b) * sum;
    }
};

// 16 bytes of two runs of 32: low nibbles of one, high ones of the next.
template <u32 BYTES, u32 QUANTS, bool FIFTH>
struct Wide<K45<BYTES, QUANTS, FIFTH>> {
    static const u32 CHUNK = 16, SHIFT = FIFTH ? 2 : 3;
    static __device__ __forceinline__ u32 at(u32 t, u32 c) { return t / 8 * 256 + t % 8 / 2 * 64 + t % 2 * 16 + c * 32; }
    static __device__ __forceinline__ float sum(const u8* row, u32 t, const float* v, const float* totals) {
        const u8* b = row + t / 8 * BYTES;
        u32 pair = t % 8 / 2, half = t % 2 * 16;
        uint4 head = *(const uint4*)b, quants = *(const uint4*)(b + QUANTS + 32 * pair + half), fifth = {0, 0, 0, 0};
        if (FIFTH) fifth = *(const uint4*)(b + 16 + half);
        // Scales and minima of both runs: bytes 2 pair and 2 pair + 1 of three words of four (`scale_min`).
        u32 by = pair % 2 * 16, x = head.y >> by & 0xffff, y = head.z >> by & 0xffff, z = head.w >> by & 0xffff;
        u32 scales = pair < 2 ? x & 0x3f3f : (z & 0x0f0f) | (x >> 2 & 0x3030);
        u32 minima = pair < 2 ? y & 0x3f3f : (z >> 4 & 0x0f0f) | (y >> 2 & 0x3030);
        u32 words[4] = {quants.x, quants.y, quants.z, quants.w}, bits[4] = {fifth.x, fifth.y, fifth.z, fifth.w};
        float low = 0.0f, high = 0.0f;
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 l = words[i] << SHIFT & 0x0f0f0f0fu << SHIFT, h = words[i] >> (4 - SHIFT) & 0x0f0f0f0fu << SHIFT;
            if (FIFTH) {
                l |= (bits[i] >> (2 * pair) & 0x01010101u) << 6;
                h |= (bits[i] >> (2 * pair + 1) & 0x01010101u) << 6;
            }
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                low = fmaf(from_one(FROM_ONE(l), j), v[4 * i + j], low);
                high = fmaf(from_one(FROM_ONE(h), j), v[16 + 4 * i + j], high);
            }
        }
        float sum = float(scales & 255) * (low - totals[0]) + float(scales >> 8) * (high - totals[1]);
        float least = float(minima & 255) * totals[0] + float(minima >> 8) * totals[1];
        float d = float_of_half(u16(head.x)), minimum = float_of_half(u16(head.x >> 16));
        return float(128 >> SHIFT) * d * sum - minimum * least;
    }
};

// Eight elements of each of a half's four runs of 32.
template <>
struct Wide<Q6K> {
    static const u32 CHUNK = 8;
    static __device__ __forceinline__ u32 at(u32 t, u32 c) { return t / 8 * 256 + t % 8 / 4 * 128 + t % 4 * 8 + c * 32; }
    static __device__ __forceinline__ float sum(const u8* row, u32 t, const float* v, const float* totals) {
        const u8* b = row + t / 8 * 210;
        u32 half = t % 8 / 4, l = t % 4 * 8;
        u32 first[2], second[2], pairs[2];
        words_at<2>(b + 64 * half + l, first);
        words_at<2>(b + 64 * half + 32 + l, second);
        words_at<2>(b + 128 + 32 * half + l, pairs);
        const u8* scales = b + 192 + 8 * half + l / 16;
        float sums[4] = {};
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            u32 x[4] = {
                (first[i] << 1 & 0x1e1e1e1eu) | (pairs[i] << 5 & 0x60606060u),
                (second[i] << 1 & 0x1e1e1e1eu) | (pairs[i] << 3 & 0x60606060u),
                (first[i] >> 3 & 0x1e1e1e1eu) | (pairs[i] << 1 & 0x60606060u),
                (second[i] >> 3 & 0x1e1e1e1eu) | (pairs[i] >> 1 & 0x60606060u),
            };
#pragma unroll
            for (u32 run = 0; run < 4; run++) {
#pragma unroll
                for (u32 j = 0; j < 4; j++) {
                    sums[run] = fmaf(from_one(FROM_ONE(x[run]), j), v[8 * run + 4 * i + j], sums[run]);
                }
            }
        }
        // q - 32 = 64 (1 + q / 64) - 96.
        float all = 0.0f;
#pragma unroll
        for (u32 run = 0; run < 4; run++) {
            all = fmaf(float(i8(scales[2 * run])), fmaf(64.0f, sums[run], -96.0f * totals[run]), all);
        }
        return half_at(b + 208) * all;
    }
};

template <u32 LENGTH>
struct Wide<Q6KPlanes<LENGTH>> {
    static const u32 CHUNK = 16;
    static __device__ __forceinline__ u32 at(u32 t, u32 c) { return t * 32 + c * 16; }
    static __device__ __forceinline__ float sum(const u8* row, u32 t, const float* v, const float* totals) {
        typedef Q6KPlanes<LENGTH> Planes;
        uint4 quants = *(const uint4*)(row + t * 16);
        uint2 pairs = *(const uint2*)(row + Planes::HIGHS + t * 8);
        u32 scales = *(const u16*)(row + Planes::SCALES + t * 2);
        u32 words[4] = {quants.x, quants.y, quants.z, quants.w};
        float low = 0.0f, high = 0.0f;
#pragma unroll
        for (u32 w = 0; w < 4; w++) {
            u32 l = (words[w] << 1 & 0x1e1e1e1eu) | ((w < 3 ? pairs.x << (5 - 2 * w) : pairs.x >> 1) & 0x60606060u);
            u32 h = (words[w] >> 3 & 0x1e1e1e1eu) | ((w < 3 ? pairs.y << (5 - 2 * w) : pairs.y >> 1) & 0x60606060u);
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                low = fmaf(from_one(FROM_ONE(l), j), v[4 * w + j], low);
                high = fmaf(from_one(FROM_ONE(h), j), v[16 + 4 * w + j], high);
            }
        }
        // q - 32 = 64 (1 + q / 64) - 96.
        float all = float(i8(scales)) * fmaf(64.0f, low, -96.0f * totals[0]);
        all = fmaf(float(i8(scales >> 8)), fmaf(64.0f, high, -96.0f * totals[1]), all);
        return half_at(row + Planes::FACTORS + t / 8 * 2) * all;
    }
};

template <u32 LENGTH>
struct Wide<Q8_0Planes<LENGTH>> {
    static const u32 CHUNK = 32;
    static __device__ __forceinline__ u32 at(u32 t, u32) { return t * 32; }
    static __device__ __forceinline__ float sum(const u8* row, u32 t, const float* v, const float*) {
        float sum = 0.0f;
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            uint4 bytes = *(const uint4*)(row + t * 32 + 16 * i);
            u64 words[2] = {u64(bytes.x) | u64(bytes.y) << 32, u64(bytes.z) | u64(bytes.w) << 32};
#pragma unroll
            for (u32 h = 0; h < 2; h++) {
                float q[8];
                floats_of(words[h] ^ 0x8080808080808080ull, 128.0f, q);
#pragma unroll
                for (u32 j = 0; j < 8; j++) sum = fmaf(q[j], v[16 * i + 8 * h + j], sum);
            }
        }
        return half_at(row + LENGTH + t * 2) * sum;
    }
};
