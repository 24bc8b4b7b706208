// Products of a row of x with packed weights as whole numbers, on tensor cores. A number of x is a power of two, which
// its block shares, times an integer of 31 bits: four digits of 8 bits with a sign. Sums of products of weights and
// digits are exact; blocks are then added as floats.
//
// A quad is four blocks that have a scale each. Column 2 b of the tensor cores' second operand has a higher digit of
// block b, column 2 b + 1 the next one, and zeros where k is of another block: lane 4 g + t then has the sums of block
// t.

// d += a b, of 16 rows by 32 of k, and 32 of k by 8 columns; PTX ISA, "Matrix fragments for mma.m16n8k32".
__device__ __forceinline__ void multiply_bytes(int d[4], const u32 a[4], u32 b0, u32 b1) {
#ifdef RLX_EMULATOR
    const u32 b[2] = {b0, b1};
    emulator::mma_m16n8k32(d, a, b, __LINE__);
#else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// Rows of a type as bytes with a sign. `bytes`: what lane t has of a quad's steps of 32, two words each: elements
// BLOCK / 4 t of a block and the seven behind it, or, where a block is 16, three behind it in each of two blocks.
// AT_ONCE: bytes that a lane reads at once. `scales`: of block t of a quad, what a byte counts, and what is taken from
// every element.
template <class F>
struct Whole;

template <u32 BYTES, u32 QUANTS, bool FIFTH>
struct Whole<K45<BYTES, QUANTS, FIFTH>> {
    static const u32 BLOCK = 32, AT_ONCE = 8;
    static const bool MINIMA = true;
    static __device__ __forceinline__ void bytes(const u8* row, u32 quad, u32 t, u32 w[8]) {
        const u8* b = row + quad / 2 * BYTES;
        uint2 fifth = {0, 0};
        if (FIFTH) fifth = *(const uint2*)(b + 16 + 8 * t);
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            u32 pair = quad % 2 * 2 + i;
            uint2 q = *(const uint2*)(b + QUANTS + pair * 32 + 8 * t);
            w[4 * i] = q.x & 0x0f0f0f0fu, w[4 * i + 1] = q.y & 0x0f0f0f0fu;
            w[4 * i + 2] = q.x >> 4 & 0x0f0f0f0fu, w[4 * i + 3] = q.y >> 4 & 0x0f0f0f0fu;
            if (FIFTH) {
#pragma unroll
                for (u32 j = 0; j < 2; j++) {
                    w[4 * i + 2 * j] |= (fifth.x >> (2 * pair + j) & 0x01010101u) << 4;
                    w[4 * i + 2 * j + 1] |= (fifth.y >> (2 * pair + j) & 0x01010101u) << 4;
                }
            }
        }
    }
    static __device__ __forceinline__ void scales(const u8* row, u32 quad, u32 t, float& scale, float& minimum) {
        uint4 head = *(const uint4*)(row + quad / 2 * BYTES);
        u32 x = head.y >> (8 * t), y = head.z >> (8 * t), z = head.w >> (8 * t);
        u32 s = quad % 2 == 0 ? x & 63 : (z & 15) | (x >> 2 & 0x30);
        u32 m = quad % 2 == 0 ? y & 63 : (z >> 4 & 15) | (y >> 2 & 0x30);
        scale = float_of_half(u16(head.x)) * float(s);
        minimum = float_of_half(u16(head.x >> 16)) * float(m);
    }
};

// q - 32 stands in the upper six bits of a byte, so that a byte counts four.
template <u32 LENGTH>
struct Whole<Q6KPlanes<LENGTH>> {
    typedef Q6KPlanes<LENGTH> Planes;
    static const u32 BLOCK = 16, AT_ONCE = 4;
    static const bool MINIMA = false;
    static __device__ __forceinline__ void bytes(const u8* row, u32 quad, u32 t, u32 w[4]) {
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            u32 unit = quad * 2 + i, q = *(const u32*)(row + unit * 16 + 4 * t);
            uint2 pairs = *(const uint2*)(row + Planes::HIGHS + unit * 8);
            u32 x = pairs.x >> (2 * t), y = pairs.y >> (2 * t);
            w[2 * i] = ((q << 2 & 0x3c3c3c3cu) | (x << 6 & 0xc0c0c0c0u)) ^ 0x80808080u;
            w[2 * i + 1] = ((q >> 2 & 0x3c3c3c3cu) | (y << 6 & 0xc0c0c0c0u)) ^ 0x80808080u;
        }
    }
    static __device__ __forceinline__ void scales(const u8* row, u32 quad, u32 t, float& scale, float&) {
        float d = half_at(row + Planes::FACTORS + quad / 4 * 2);
        scale = 0.25f * d * float(i8(row[Planes::SCALES + quad * 4 + t]));
    }
};

template <u32 LENGTH>
struct Whole<Q8_0Planes<LENGTH>> {
    static const u32 BLOCK = 32, AT_ONCE = 8;
    static const bool MINIMA = false;
    static __device__ __forceinline__ void bytes(const u8* row, u32 quad, u32 t, u32 w[8]) {
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            uint2 q = *(const uint2*)(row + quad * 128 + i * 32 + 8 * t);
            w[2 * i] = q.x, w[2 * i + 1] = q.y;
        }
    }
    static __device__ __forceinline__ void scales(const u8* row, u32 quad, u32 t, float& scale, float&) {
        scale = half_at(row + LENGTH + (quad * 4 + t) * 2);
    }
};

// How far apart rows of a stage stand: lanes that read eight of them meet no bank twice.
template <class F>
__device__ __forceinline__ constexpr u32 stride_of(u32 row_bytes) {
    return row_bytes + (128 + 4 * Whole<F>::AT_ONCE - row_bytes % 128) % 128;
}

// An integer's four digits, the lowest first. With 128 more each of the lower three has no sign, and its highest bit is
// then turned.
__device__ __forceinline__ u32 digits_of(int x) { return (u32(x) + 0x00808080u) ^ 0x00808080u; }

// What a lane has of x, for rows of a type: the warp's QUADS quads.
template <class F>
struct Digits {
    static const u32 BLOCK = Whole<F>::BLOCK, WORDS = BLOCK / 16, QUADS = K / 4 / BLOCK / WARPS;
    // Column g: the higher pair of digits and the lower one.
    u32 words[QUADS][2][WORDS];
    // Of block t: what 1 of its integers is, and the sum of x.
    float units[QUADS], totals[QUADS];

    // x times the norm's weights.
    __device__ __forceinline__ void load(const float* __restrict__ x, const float* __restrict__ by) {
        const u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, each = BLOCK / 4;
        // Even columns have digits 3 and 1, odd ones 2 and 0: bytes of two numbers for `__byte_perm`.
        const u32 high = g % 2 ? 0x62u : 0x73u, low = g % 2 ? 0x40u : 0x51u;
#pragma unroll
        for (u32 q = 0; q < QUADS; q++) {
            u32 at = (threadIdx.x / 32 * QUADS + q) * 4 * BLOCK + g / 2 * BLOCK + t * each;
            float v[each], most = 0.0f, sum = 0.0f;
#pragma unroll
            for (u32 i = 0; i < each; i += 4) {
                float4 four = *(const float4*)(x + at + i);
#ifdef NORM
                float4 w = *(const float4*)(by + at + i);
                four.x *= w.x, four.y *= w.y, four.z *= w.z, four.w *= w.w;
#endif
                v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
            }
#pragma unroll
            for (u32 i = 0; i < each; i++) most = fmaxf(most, fabsf(v[i])), sum += v[i];
#pragma unroll
            for (u32 by = 1; by < 4; by *= 2) {
                most = fmaxf(most, __shfl_xor_sync(ALL_LANES, most, by));
                sum += __shfl_xor_sync(ALL_LANES, sum, by);
            }
            // The largest is 2^e or more, and less than twice that. Times 2^(29 - e) all are less than 2^30.
            u32 e = max(__float_as_uint(most) >> 23, 30u);
            float times = __uint_as_float((283u - e) << 23), unit = __uint_as_float((e - 29u) << 23);
            totals[q] = __shfl_sync(ALL_LANES, sum, 8 * t);
            // No integer is infinite, or not a number: then the unit is not.
            units[q] = __shfl_sync(ALL_LANES, unit, 8 * t) + (totals[q] - totals[q]);
#pragma unroll
            for (u32 i = 0; i < WORDS; i++) {
                u32 d[4];
#pragma unroll
                for (u32 j = 0; j < 4; j++) d[j] = digits_of(__float2int_rn(v[4 * i + j] * times));
                words[q][0][i] = __byte_perm(__byte_perm(d[0], d[1], high), __byte_perm(d[2], d[3], high), 0x5410);
                words[q][1][i] = __byte_perm(__byte_perm(d[0], d[1], low), __byte_perm(d[2], d[3], low), 0x5410);
            }
        }
    }

    // The warp's part of the products with 16 rows, which stand `stride` bytes apart: lane 4 g + t has those of rows g
    // and g + 8.
    __device__ __forceinline__ void product(const u8* rows, u32 stride, float sums[2]) const {
        const u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const u8* row[2] = {rows + g * stride, rows + (g + 8) * stride};
        sums[0] = sums[1] = 0.0f;
#pragma unroll
        for (u32 q = 0; q < QUADS; q++) {
            u32 quad = threadIdx.x / 32 * QUADS + q, w[2][BLOCK / 4];
            int high[4] = {}, low[4] = {};
            Whole<F>::bytes(row[0], quad, t, w[0]);
            Whole<F>::bytes(row[1], quad, t, w[1]);
#pragma unroll
            for (u32 s = 0; s < BLOCK / 8; s++) {
                const u32 a[4] = {w[0][2 * s], w[1][2 * s], w[0][2 * s + 1], w[1][2 * s + 1]};
                bool first = g / 2 == s * 2 / WORDS, second = g / 2 == (s * 2 + 1) / WORDS;
                multiply_bytes(high, a, first ? words[q][0][0] : 0, second ? words[q][0][WORDS - 1] : 0);
                multiply_bytes(low, a, first ? words[q][1][0] : 0, second ? words[q][1][WORDS - 1] : 0);
            }
#pragma unroll
            for (u32 r = 0; r < 2; r++) {
                float above = float(high[2 * r] * 256 + high[2 * r + 1]), scale, minimum = 0.0f;
                float v = fmaf(above, 65536.0f, float(low[2 * r] * 256 + low[2 * r + 1]));
                Whole<F>::scales(row[r], quad, t, scale, minimum);
                sums[r] = fmaf(scale * units[q], v, sums[r]);
                if (Whole<F>::MINIMA) sums[r] = fmaf(-minimum, totals[q], sums[r]);
            }
        }
#pragma unroll
        for (u32 r = 0; r < 2; r++) {
#pragma unroll
            for (u32 by = 1; by < 4; by *= 2) sums[r] += __shfl_xor_sync(ALL_LANES, sums[r], by);
        }
    }
};
