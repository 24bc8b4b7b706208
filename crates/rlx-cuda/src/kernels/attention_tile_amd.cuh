// attention_tile by AMD's products of matrices (hip_matrix.cuh). A product has positions as rows and queries as
// columns, so that a lane has positions of one query: its scores are then what the next product, of values turned by
// queries, takes as its second operand.
#ifdef HAS_MATRIX
#define TILE 64
// A block is 128 threads for 64 queries: sixteens of a wavefront.
#define GROUPS (WARP / 32)

// Positions from p on to shared memory, zeros from `end` on: rows of keys, and columns of values.
__device__ __forceinline__ void bring(u16 (&ks)[TILE][HEAD + 8], u16 (&vs)[HEAD][TILE + 8], const u8* __restrict__ keys,
                                      const u8* __restrict__ values, size_t first, u32 p, u32 end) {
    const u32 parts = HEAD / 8;
    for (u32 i = threadIdx.x; i < TILE * parts; i += 128) {
        u32 position = i / parts, part = i % parts;
        uint4 k = {0, 0, 0, 0}, v = {0, 0, 0, 0};
        if (p + position < end) {
            size_t at = (first + (p + position) % CAPACITY) * ROW_BYTES + part * 16;
            k = *(const uint4*)(keys + at);
            v = *(const uint4*)(values + at);
        }
        *(uint4*)&ks[position][part * 8] = k;
        u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (u32 j = 0; j < 8; j++) vs[part * 8 + j][position] = u16(words[j / 2] >> (j % 2 * 16));
    }
}

__device__ __forceinline__ void attend_tile(u32 row0, u32 head, u32 past, u32 len, const float* __restrict__ q,
                                            const u8* __restrict__ keys, const u8* __restrict__ values SINKS_PARAMETER,
                                            float* __restrict__ y) {
    using namespace matrix;
    const u32 parts = PARTS_BESIDE_HALVES;
    __shared__ __align__(16) u16 ks[TILE][HEAD + 8], vs[HEAD][TILE + 8];
    u32 column = lane() % 16, element = first_element();
    u32 own = row0 + threadIdx.x / WARP * (16 * GROUPS) + column;
    size_t first = size_t(head / (HEADS / KV)) * CAPACITY;
    u32 from, to, unused;
    seen_by(row0, past, len, from, unused);
    seen_by(min(row0 + TILE, len) - 1, past, len, unused, to);
    u32 start[GROUPS], end[GROUPS];
    float factor[GROUPS], inverse[GROUPS], most[GROUPS], total[GROUPS];
    // Queries that a thread has no registers for are read again for each step of positions.
    const bool stay = sizeof(OfHalves) * parts * GROUPS * (HEAD / 16) <= 256;
    OfHalves queries[GROUPS][stay ? HEAD / 16 : 1][parts];
    auto read = [&](u32 g, u32 j, OfHalves(&to)[parts]) {
        const float* at = q + size_t(min(own + g * 16, len - 1)) * HEADS * HEAD + head * HEAD + j * 16 + element;
        float e[LANE_ELEMENTS];
#pragma unroll
        for (u32 i = 0; i < LANE_ELEMENTS; i++) e[i] = at[i] * inverse[g];
        split(e, to);
    };
#pragma unroll
    for (u32 g = 0; g < GROUPS; g++) {
        u32 row = own + g * 16;
        start[g] = end[g] = 0;
        most[g] = -3.0e38f;
        total[g] = 0.0f;
        if (row < len) seen_by(row, past, len, start[g], end[g]);
        const float* at = q + size_t(min(row, len - 1)) * HEADS * HEAD + head * HEAD + element;
        float largest = 0.0f;
        for (u32 e = 0; e < HEAD; e += 16) {
#pragma unroll
            for (u32 i = 0; i < LANE_ELEMENTS; i++) largest = fmaxf(largest, fabsf(at[e + i]));
        }
        // As in halves.cu.
        u32 exponent = __float_as_uint(most_of_column(largest)) >> 23;
        u32 field = exponent == 255u || exponent < 16u ? 127u : exponent - 14u;
        inverse[g] = __uint_as_float((254u - field) << 23);
        factor[g] = __uint_as_float(field << 23) * SCALE;
        if (stay) {
#pragma unroll
            for (u32 j = 0; j < HEAD / 16; j++) read(g, j, queries[g][stay ? j : 0]);
        }
    }
    Sums sums[GROUPS][HEAD / 16] = {};
    for (u32 p0 = from; p0 < to; p0 += TILE) {
        __syncthreads();
        bring(ks, vs, keys, values, first, p0, to);
        __syncthreads();
        Sums scores[GROUPS][TILE / 16] = {};
#pragma unroll
        for (u32 j = 0; j < HEAD / 16; j++) {
            if (!stay) {
#pragma unroll
                for (u32 g = 0; g < GROUPS; g++) read(g, j, queries[g][0]);
            }
#pragma unroll
            for (u32 n = 0; n < TILE / 16; n++) {
                OfHalves of_keys[1];
                load(of_keys[0], &ks[n * 16 + column][j * 16 + element]);
#pragma unroll
                for (u32 g = 0; g < GROUPS; g++) multiply(scores[g][n], of_keys, queries[g][stay ? j : 0]);
            }
        }
#pragma unroll
        for (u32 g = 0; g < GROUPS; g++) {
            float higher = most[g];
#pragma unroll
            for (u32 i = 0; i < TILE / 16 * LANE_SUMS; i++) {
                u32 p = p0 + i / LANE_SUMS * 16 + row_of_sum(i % LANE_SUMS);
                float score = scores[g][i / LANE_SUMS][i % LANE_SUMS];
                score = p >= start[g] && p < end[g] ? capped(score * factor[g]) : MINUS_INFINITY;
                scores[g][i / LANE_SUMS][i % LANE_SUMS] = score;
                higher = fmaxf(higher, score);
            }
            higher = most_of_column(higher);
            float fade = __expf(most[g] - higher);
            most[g] = higher;
            total[g] *= fade;
#pragma unroll
            for (u32 i = 0; i < TILE / 16 * LANE_SUMS; i++) {
                float weight = __expf(scores[g][i / LANE_SUMS][i % LANE_SUMS] - higher);
                scores[g][i / LANE_SUMS][i % LANE_SUMS] = weight;
                total[g] += weight;
            }
#pragma unroll
            for (u32 c = 0; c < HEAD / 16; c++) sums[g][c] *= fade;
        }
#pragma unroll
        for (u32 n = 0; n < TILE / 16; n++) {
            OfHalves weights[GROUPS][parts];
#pragma unroll
            for (u32 g = 0; g < GROUPS; g++) {
                float e[LANE_ELEMENTS];
                as_elements(scores[g][n], e);
                split(e, weights[g]);
            }
#pragma unroll
            for (u32 c = 0; c < HEAD / 16; c++) {
                OfHalves of_values[1];
                load(of_values[0], &vs[c * 16 + column][n * 16 + element]);
#pragma unroll
                for (u32 g = 0; g < GROUPS; g++) multiply(sums[g][c], of_values, weights[g]);
            }
        }
    }
#pragma unroll
    for (u32 g = 0; g < GROUPS; g++) {
        u32 row = own + g * 16;
        float all = sum_of_column(total[g]), share = 1.0f;
#ifdef SINKS
        float highest = fmaxf(most[g], sinks[head]);
        share = expf(most[g] - highest);
        all = all * share + expf(sinks[head] - highest);
#endif
        share = all > 0.0f ? share / all : 0.0f;
        if (row >= len) continue;
        float* at = y + size_t(row) * HEADS * HEAD + head * HEAD;
#pragma unroll
        for (u32 i = 0; i < HEAD / 16 * LANE_SUMS; i++) {
            at[i / LANE_SUMS * 16 + row_of_sum(i % LANE_SUMS)] = sums[g][i / LANE_SUMS][i % LANE_SUMS] * share;
        }
    }
}
#endif
