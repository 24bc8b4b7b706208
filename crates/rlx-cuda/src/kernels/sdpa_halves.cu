// sdpa        y[b, i, h] = softmax(mask(cap(scale q[b, i, h] k[b, :, h / GROUP]^T))) v[b, :, h / GROUP]
//             arXiv:2205.14135
// shapes      q T[B, QUERIES, HEADS, HEAD]    k T[B, KEYS, KV, HEAD]    v T[B, KEYS, KV, WIDTH]    y T as q, WIDTH wide
// bytes       q and y once; k and v for each 64 queries of each head
// launch      a block of 4 warps is 64 queries of a head, 16 of a warp; keys come by TILE to shared memory
// numerics    products of T, f16 or bf16, on tensor cores, sums in f32; an online softmax by TILE keys, whose weights
//             are rounded to T; rounded once. AMD's cards have sdpa_tile_amd.cuh
#ifdef HAS_HALVES
// Rows from j on to shared memory; zeros from `end` on.
template <u32 Length>
__device__ __forceinline__ void bring(Rows16<TILE, Length>& to, const T* __restrict__ from, size_t step, u32 j,
                                      u32 end) {
    const u32 parts = Length / 8;
    for (u32 n = threadIdx.x; n < TILE * parts; n += THREADS) {
        u32 row = n / parts, part = n % parts;
        uint4 eight = {0, 0, 0, 0};
        if (j + row < end) eight = *(const uint4*)(from + size_t(j + row) * step + part * 8);
        *(uint4*)&to[row][part * 8] = eight;
    }
}

__device__ __forceinline__ void attend_tile(u32 first, u32 h, u32 b, const T* __restrict__ q, const T* __restrict__ k,
                                            const T* __restrict__ v, T* __restrict__ y MASK_PARAMETERS) {
    __shared__ __align__(16) Rows16<TILE, HEAD> ks;
    __shared__ __align__(16) Rows16<TILE, WIDTH> vs;
    u32 pairs = threadIdx.x % 4 * 2, own = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    k += K_AT(b, 0, h / GROUP);
    v += V_AT(b, 0, h / GROUP);
    // A thread has two queries, 8 apart.
    u32 query[HEAD / 16][4], start[2], end[2];
    float sums[WIDTH / 8][4] = {}, most[2] = {MINUS_INFINITY, MINUS_INFINITY}, total[2] = {0.0f, 0.0f};
#pragma unroll
    for (u32 r = 0; r < 2; r++) {
        u32 i = min(own + r * 8, QUERIES - 1);
        start[r] = FIRST_KEY(i);
        end[r] = KEYS_END(i);
        const T* at = q + Q_AT(b, i, h) + pairs;
#pragma unroll
        for (u32 j = 0; j < HEAD / 8; j++) query[j / 2][j % 2 * 2 + r] = *(const u32*)(at + j * 8);
    }
    u32 last = KEYS_END(min(first + 64, QUERIES) - 1);
    for (u32 j0 = FIRST_KEY(first); j0 < last; j0 += TILE) {
        __syncthreads();
        bring<HEAD>(ks, k, K_AT(0, 1, 0), j0, last);
        bring<WIDTH>(vs, v, V_AT(0, 1, 0), j0, last);
        __syncthreads();
        float scores[TILE / 8][4] = {};
#pragma unroll
        for (u32 j = 0; j < HEAD / 16; j++) {
#pragma unroll
            for (u32 n = 0; n < TILE / 8; n += 2) {
                u32 of_keys[4];
                along_columns(of_keys, ks, n * 8, j * 16);
                multiply<KIND>(scores[n], query[j], of_keys);
                multiply<KIND>(scores[n + 1], query[j], of_keys + 2);
            }
        }
        float fade[2];
        weigh(scores, start, end, most, total, fade, own, j0, h, b MASK_ARGUMENTS);
#pragma unroll
        for (u32 i = 0; i < WIDTH / 2; i++) sums[i / 4][i % 4] *= fade[i % 4 / 2];
#pragma unroll
        for (u32 n = 0; n < TILE / 16; n++) {
            u32 weights[4];
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                const float* two = &scores[2 * n + i / 2][i % 2 * 2];
                weights[i] = pair_of(two[0], two[1]);
            }
#pragma unroll
            for (u32 c = 0; c < WIDTH / 8; c += 2) {
                u32 of_values[4];
                along_rows(of_values, vs, n * 16, c * 8);
                multiply<KIND>(sums[c], weights, of_values);
                multiply<KIND>(sums[c + 1], weights, of_values + 2);
            }
        }
    }
#pragma unroll
    for (u32 r = 0; r < 2; r++) {
        u32 i = own + r * 8;
        float all = sum_of_four(total[r]), share = all == 0.0f ? 0.0f : 1.0f / all;
        if (i >= QUERIES) continue;
        T* at = y + Y_AT(b, i, h) + pairs;
#pragma unroll
        for (u32 c = 0; c < WIDTH / 8; c++) {
            *(u32*)(at + c * 8) = pair_of(sums[c][r * 2] * share, sums[c][r * 2 + 1] * share);
        }
    }
}
#elif !defined(HAS_MATRIX)
__device__ __forceinline__ void attend_tile(u32 first, u32 h, u32 b, const T* __restrict__ q, const T* __restrict__ k,
                                            const T* __restrict__ v, T* __restrict__ y MASK_PARAMETERS) {
    for (u32 i = first; i < min(first + 64, QUERIES); i++) attend_query(i, h, b, q, k, v, y MASK_ARGUMENTS);
}
#endif

KERNEL(sdpa_halves)(const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v,
                    T* __restrict__ y MASK_PARAMETERS) {
    wait_for_previous();
    const u32 tiles = (QUERIES + 63) / 64;
    u32 own = blockIdx.x / tiles;
    attend_tile(blockIdx.x % tiles * 64, own % HEADS, own / HEADS, q, k, v, y MASK_ARGUMENTS);
}
