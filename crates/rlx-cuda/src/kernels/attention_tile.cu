// attention   y[i, h] = softmax(cap(scale q[i, h] k^T)) v over the positions that row i sees      arXiv:2205.14135
// shapes      q, y f32[ROWS, HEADS * HEAD]    caches f16[KV, CAPACITY, HEAD]    ctl u32[16]    sinks f32[HEADS]
// bytes       q and y once; the positions that are seen, for each 64 rows of a query head
// launch      a block of 4 warps is 64 rows of a head, 16 of a warp; positions come by 64 to shared memory
// numerics    products of halves on tensor cores, sums in f32: queries, divided by a power of two of their row, and
//             weights are PARTS halves each, two of 22 bits together; AMD's cards have attention_tile_amd.cuh
#ifndef HAS_MATRIX
#define TILE 64
#endif

#ifdef HAS_HALVES
typedef Rows16<TILE, HEAD> Positions;

// Positions from p on to shared memory; zeros from `end` on.
__device__ __forceinline__ void bring(Positions& to, const u8* __restrict__ cache, size_t first, u32 p, u32 end) {
    const u32 parts = HEAD / 8;
    for (u32 i = threadIdx.x; i < TILE * parts; i += 128) {
        u32 position = i / parts, part = i % parts;
        uint4 v = {0, 0, 0, 0};
        if (p + position < end) {
            v = *(const uint4*)(cache + (first + (p + position) % CAPACITY) * ROW_BYTES + part * 16);
        }
        *(uint4*)&to[position][part * 8] = v;
    }
}

__device__ __forceinline__ void attend_tile(u32 row0, u32 head, u32 past, u32 len, const float* __restrict__ q,
                                            const u8* __restrict__ keys, const u8* __restrict__ values SINKS_PARAMETER,
                                            float* __restrict__ y) {
    __shared__ __align__(16) Positions ks, vs;
    u32 lane = threadIdx.x % 32, own = row0 + threadIdx.x / 32 * 16 + lane / 4, pairs = lane % 4 * 2;
    size_t first = size_t(head / (HEADS / KV)) * CAPACITY;
    u32 from, to, unused;
    seen_by(row0, past, len, from, unused);
    seen_by(min(row0 + TILE, len) - 1, past, len, unused, to);
    u32 query[PARTS][HEAD / 16][4];
    Seen seen = read_queries(own, head, past, len, q, query);
    float sums[HEAD / 8][4] = {}, most[2] = {-3.0e38f, -3.0e38f}, total[2] = {0.0f, 0.0f};
    for (u32 p0 = from; p0 < to; p0 += TILE) {
        __syncthreads();
        bring(ks, keys, first, p0, to);
        bring(vs, values, first, p0, to);
        __syncthreads();
        float scores[TILE / 8][4] = {};
#pragma unroll
        for (u32 j = 0; j < HEAD / 16; j++) {
#pragma unroll
            for (u32 n = 0; n < TILE / 8; n += 2) {
                u32 b[4];
                along_columns(b, ks, n * 8, j * 16);
#pragma unroll
                for (u32 p = PARTS; p-- > 0;) {
                    multiply<F16>(scores[n], query[p][j], b);
                    multiply<F16>(scores[n + 1], query[p][j], b + 2);
                }
            }
        }
        float fade[2];
#pragma unroll
        for (u32 r = 0; r < 2; r++) {
            float higher = most[r];
#pragma unroll
            for (u32 i = 0; i < TILE / 4; i++) {
                float& score = scores[i / 2][r * 2 + i % 2];
                u32 p = p0 + i / 2 * 8 + pairs + i % 2;
                score = p >= seen.start[r] && p < seen.end[r] ? capped(score * seen.factor[r]) : MINUS_INFINITY;
                higher = fmaxf(higher, score);
            }
            higher = most_of_four(higher);
            fade[r] = __expf(most[r] - higher);
            most[r] = higher;
            total[r] *= fade[r];
#pragma unroll
            for (u32 i = 0; i < TILE / 4; i++) {
                float& score = scores[i / 2][r * 2 + i % 2];
                score = __expf(score - higher);
                total[r] += score;
            }
        }
#pragma unroll
        for (u32 i = 0; i < HEAD / 2; i++) sums[i / 4][i % 4] *= fade[i % 4 / 2];
#pragma unroll
        for (u32 k = 0; k < TILE / 16; k++) {
            u32 weights[PARTS][4];
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                const float* w = &scores[2 * k + i / 2][i % 2 * 2];
                u32 parts[PARTS];
                split(w[0], w[1], parts);
#pragma unroll
                for (u32 p = 0; p < PARTS; p++) weights[p][i] = parts[p];
            }
#pragma unroll
            for (u32 n = 0; n < HEAD / 8; n += 2) {
                u32 b[4];
                along_rows(b, vs, k * 16, n * 8);
#pragma unroll
                for (u32 p = PARTS; p-- > 0;) {
                    multiply<F16>(sums[n], weights[p], b);
                    multiply<F16>(sums[n + 1], weights[p], b + 2);
                }
            }
        }
    }
#pragma unroll
    for (u32 r = 0; r < 2; r++) {
        u32 row = own + r * 8;
        float all = sum_of_four(total[r]), share = 1.0f;
#ifdef SINKS
        float highest = fmaxf(most[r], sinks[head]);
        share = expf(most[r] - highest);
        all = all * share + expf(sinks[head] - highest);
#endif
        share = all > 0.0f ? share / all : 0.0f;
        if (row >= len) continue;
        float* at = y + size_t(row) * HEADS * HEAD + head * HEAD + pairs;
#pragma unroll
        for (u32 n = 0; n < HEAD / 8; n++) {
            *(float2*)(at + n * 8) = make_float2(sums[n][r * 2] * share, sums[n][r * 2 + 1] * share);
        }
    }
}
#elif !defined(HAS_MATRIX)
__device__ __forceinline__ void attend_tile(u32 row0, u32 head, u32 past, u32 len, const float* __restrict__ q,
                                            const u8* __restrict__ keys, const u8* __restrict__ values SINKS_PARAMETER,
                                            float* __restrict__ y) {
    for (u32 row = row0; row < min(row0 + TILE, len); row++) {
        __syncthreads();
        attend_row(row, head, past, len, q, keys, values SINKS_ARGUMENT, y);
    }
}
#endif

KERNEL(attention_tile)(const float* __restrict__ q, const u8* __restrict__ keys, const u8* __restrict__ values,
                       const u32* __restrict__ ctl SINKS_PARAMETER, float* __restrict__ y) {
    wait_for_previous();
    u32 len = min(ctl[1], ROWS);
    // The last rows see the most: they begin first.
    u32 row0 = (gridDim.x - 1 - blockIdx.x) * TILE;
    if (row0 < len) attend_tile(row0, blockIdx.y, ctl[0], len, q, keys, values SINKS_ARGUMENT, y);
}
