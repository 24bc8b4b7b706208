// sdpa_tile and sdpa_halves by AMD's products of matrices (hip_matrix.cuh), with keys as rows and queries as columns,
// as in attention_tile_amd.cuh. Floats are floats on CDNA, and three parts of 8 bits on RDNA; halves are one part, and
// weights of bf16 two.
#ifdef HAS_MATRIX
// Sixteens of queries of a wavefront: a block of 128 threads has 64 queries.
#define GROUPS (WARP / 32)
// Whole steps of 16, with zeros behind the ends of heads and values.
#define WHOLE_HEAD ((HEAD + 15) / 16 * 16)
#define WHOLE_WIDTH ((WIDTH + 15) / 16 * 16)

template <class E>
struct Multiplied {
    typedef matrix::OfFloats Operand;
    static const u32 PARTS = matrix::PARTS_OF_FLOATS, PARTS_OF_WEIGHTS = matrix::PARTS_OF_FLOATS;
};
template <>
struct Multiplied<f16> {
    typedef matrix::OfHalves Operand;
    static const u32 PARTS = 1, PARTS_OF_WEIGHTS = 1;
};
template <>
struct Multiplied<bf16> {
    typedef matrix::Bf16s Operand;
    static const u32 PARTS = 1, PARTS_OF_WEIGHTS = 2;
};
typedef Multiplied<T>::Operand Operand;

// Elements that lie side by side from a multiple of 8 bytes on.
__device__ __forceinline__ void load(Operand (&to)[Multiplied<T>::PARTS], const T* at) {
#if IS_SHORT
    matrix::load(to[0], (const u16*)at);
#else
    float e[matrix::LANE_ELEMENTS];
#pragma unroll
    for (u32 i = 0; i < matrix::LANE_ELEMENTS; i++) e[i] = at[i];
    matrix::split(e, to);
#endif
}

// Rows j to j + TILE - 1 of keys and of values to shared memory, values turned; zeros from `end` on.
__device__ __forceinline__ void bring(T (&ks)[TILE][WHOLE_HEAD + 8], T (&vs)[WHOLE_WIDTH][TILE + 8],
                                      const T* __restrict__ k, const T* __restrict__ v, u32 j, u32 end) {
    const u32 each = 16 / sizeof(T);
    for (u32 n = threadIdx.x; n < TILE * (WHOLE_HEAD / each); n += THREADS) {
        u32 row = n / (WHOLE_HEAD / each), at = n % (WHOLE_HEAD / each) * each;
        uint4 part = {0, 0, 0, 0};
        if (j + row < end && at < HEAD) part = *(const uint4*)(k + K_AT(0, j + row, 0) + at);
        *(uint4*)&ks[row][at] = part;
    }
    for (u32 n = threadIdx.x; n < TILE * (WHOLE_WIDTH / each); n += THREADS) {
        u32 row = n / (WHOLE_WIDTH / each), at = n % (WHOLE_WIDTH / each) * each;
        uint4 part = {0, 0, 0, 0};
        if (j + row < end && at < WIDTH) part = *(const uint4*)(v + V_AT(0, j + row, 0) + at);
        u32 words[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
        for (u32 i = 0; i < each; i++) {
#if IS_SHORT
            vs[at + i][row] = T{u16(words[i / 2] >> (i % 2 * 16))};
#else
            vs[at + i][row] = __uint_as_float(words[i]);
#endif
        }
    }
}

__device__ __forceinline__ void attend_tile(u32 first, u32 h, u32 b, const T* __restrict__ q, const T* __restrict__ k,
                                            const T* __restrict__ v, T* __restrict__ y MASK_PARAMETERS) {
    using matrix::LANE_SUMS;
    typedef Multiplied<T> Of;
    __shared__ __align__(16) T ks[TILE][WHOLE_HEAD + 8], vs[WHOLE_WIDTH][TILE + 8];
    u32 column = matrix::lane() % 16, element = matrix::first_element();
    u32 own = first + threadIdx.x / WARP * (16 * GROUPS) + column;
    q += Q_AT(b, 0, h);
    k += K_AT(b, 0, h / GROUP);
    v += V_AT(b, 0, h / GROUP);
    // Queries that a thread has no registers for are read again for each step of keys.
    const bool stay = sizeof(Operand) * Of::PARTS * GROUPS * (WHOLE_HEAD / 16) <= 256;
    Operand queries[GROUPS][stay ? WHOLE_HEAD / 16 : 1][Of::PARTS];
    auto read = [&](u32 g, u32 e, Operand (&to)[Of::PARTS]) {
        const T* at = q + Q_AT(0, min(own + g * 16, QUERIES - 1), 0) + e + element;
#if IS_SHORT
        __align__(16) u16 bits[matrix::LANE_ELEMENTS];
#pragma unroll
        for (u32 i = 0; i < matrix::LANE_ELEMENTS; i++) bits[i] = e + element + i < HEAD ? ((const u16*)at)[i] : u16(0);
        matrix::load(to[0], bits);
#else
        float values[matrix::LANE_ELEMENTS];
#pragma unroll
        for (u32 i = 0; i < matrix::LANE_ELEMENTS; i++) values[i] = e + element + i < HEAD ? at[i] : 0.0f;
        matrix::split(values, to);
#endif
    };
    u32 start[GROUPS], end[GROUPS];
    float most[GROUPS], total[GROUPS];
    matrix::Sums sums[GROUPS][WHOLE_WIDTH / 16] = {};
#pragma unroll
    for (u32 g = 0; g < GROUPS; g++) {
        u32 i = min(own + g * 16, QUERIES - 1);
        start[g] = FIRST_KEY(i);
        end[g] = KEYS_END(i);
        most[g] = MINUS_INFINITY;
        total[g] = 0.0f;
        if (stay) {
#pragma unroll
            for (u32 n = 0; n < WHOLE_HEAD / 16; n++) read(g, n * 16, queries[g][stay ? n : 0]);
        }
    }
    u32 last = KEYS_END(min(first + 64, QUERIES) - 1);
    for (u32 j0 = FIRST_KEY(first); j0 < last; j0 += TILE) {
        __syncthreads();
        bring(ks, vs, k, v, j0, last);
        __syncthreads();
        matrix::Sums scores[GROUPS][TILE / 16] = {};
        // Where registers are few, steps come one after the other.
        const u32 at_once = stay ? WHOLE_HEAD / 16 : 1;
#pragma unroll at_once
        for (u32 e = 0; e < WHOLE_HEAD / 16; e++) {
            if (!stay) {
#pragma unroll
                for (u32 g = 0; g < GROUPS; g++) read(g, e * 16, queries[g][0]);
            }
#pragma unroll
            for (u32 n = 0; n < TILE / 16; n++) {
                Operand keys[Of::PARTS];
                load(keys, &ks[n * 16 + column][e * 16 + element]);
#pragma unroll
                for (u32 g = 0; g < GROUPS; g++) matrix::multiply(scores[g][n], keys, queries[g][stay ? e : 0]);
            }
        }
        float fade[GROUPS];
#pragma unroll
        for (u32 g = 0; g < GROUPS; g++) {
            u32 i = min(own + g * 16, QUERIES - 1);
            float higher = most[g];
#pragma unroll
            for (u32 n = 0; n < TILE / 16 * LANE_SUMS; n++) {
                float score = scores[g][n / LANE_SUMS][n % LANE_SUMS];
                u32 j = j0 + n / LANE_SUMS * 16 + matrix::row_of_sum(n % LANE_SUMS);
                if (j >= start[g] && j < end[g]) {
                    score = capped(score * SCALE);
                    score = MASKED(score, b, h, i, j);
                } else {
                    score = MINUS_INFINITY;
                }
                scores[g][n / LANE_SUMS][n % LANE_SUMS] = score;
                higher = fmaxf(higher, score);
            }
            higher = matrix::most_of_column(higher);
            float base = base_of(higher);
            fade[g] = __expf(most[g] - base);
            most[g] = higher;
            total[g] *= fade[g];
#pragma unroll
            for (u32 n = 0; n < TILE / 16 * LANE_SUMS; n++) {
                float weight = __expf(scores[g][n / LANE_SUMS][n % LANE_SUMS] - base);
                scores[g][n / LANE_SUMS][n % LANE_SUMS] = weight;
                total[g] += weight;
            }
#pragma unroll
            for (u32 c = 0; c < WHOLE_WIDTH / 16; c++) sums[g][c] *= fade[g];
        }
#pragma unroll
        for (u32 n = 0; n < TILE / 16; n++) {
            Operand weights[GROUPS][Of::PARTS_OF_WEIGHTS];
#pragma unroll
            for (u32 g = 0; g < GROUPS; g++) {
                float e[matrix::LANE_ELEMENTS];
                matrix::as_elements(scores[g][n], e);
                matrix::split(e, weights[g]);
            }
#pragma unroll
            for (u32 c = 0; c < WHOLE_WIDTH / 16; c++) {
                matrix::go_on();
                Operand values[Of::PARTS];
                load(values, &vs[c * 16 + column][n * 16 + element]);
#pragma unroll
                for (u32 g = 0; g < GROUPS; g++) matrix::multiply(sums[g][c], values, weights[g]);
            }
        }
    }
#pragma unroll
    for (u32 g = 0; g < GROUPS; g++) {
        u32 i = own + g * 16;
        float all = matrix::sum_of_column(total[g]), share = all == 0.0f ? 0.0f : 1.0f / all;
        if (i >= QUERIES) continue;
        T* at = y + Y_AT(b, i, h);
#pragma unroll
        for (u32 n = 0; n < WHOLE_WIDTH / 16 * LANE_SUMS; n++) {
            u32 e = n / LANE_SUMS * 16 + matrix::row_of_sum(n % LANE_SUMS);
            if (e < WIDTH) at[e] = rounded_to<T>(sums[g][n / LANE_SUMS][n % LANE_SUMS] * share);
        }
    }
}
#endif
