// grouped_tile  y[p, n] = epilogue(sum over k of x[row of p, k] * W[expert of p, n, k]) for pairs p of a row and an expert
// shapes      x f32[M, K] or f32[M, TOP_K, K]    W FORMAT[EXPERTS, N, K]    order, tiles as group_rows makes them
//             y f32[M TOP_K, N]
// bytes       an expert's W for each 64 of its pairs, a pair's row for each 64 columns; 4*N written for a pair
// launch      a block of 256 threads is a tile of 64 pairs of an expert by 64 columns; while a step of k is summed up, the
//             next one is on its way from memory to registers
// numerics    f32, or what tensor cores make as near to it (tile_sums.cuh); sums of steps in order of k
KERNEL(grouped_tile)(const float* __restrict__ x, const u8* __restrict__ w WEIGHT_PARAMETER BIAS_PARAMETER,
                     const u32* __restrict__ order, const u32* __restrict__ tiles, float* y) {
    wait_for_previous();
    u32 expert = tiles[3 * blockIdx.y], pairs = tiles[3 * blockIdx.y + 1], count = tiles[3 * blockIdx.y + 2];
    if (count == 0) return;
    __shared__ __align__(16) Tile xs, ws;
    float sums[16] = {}, rows[8], weights[8];
    const u8* matrix = w + size_t(expert) * N * ROW_BYTES;
#ifdef GLU
    __shared__ __align__(16) Tile us;
    float ups[16] = {}, up_weights[8];
    const u8* up_matrix = up + size_t(expert) * N * UP_ROW_BYTES;
#endif
    u32 n0 = blockIdx.x * 64;
    // Which row of x and of the weights this thread brings, and which elements of a step.
    u32 row = threadIdx.x / 4, first = threadIdx.x % 4 * 8;
    u32 own = row < count ? order[pairs + row] : 0;
    const float* from = x + size_t(X_ROW(own / TOP_K, own)) * K;
    for (u32 k0 = 0; k0 < K + STEP; k0 += STEP) {
        if (k0 > 0) {
            __syncthreads();
            put(xs, first, row, rows);
            put(ws, first, row, weights);
#ifdef GLU
            put(us, first, row, up_weights);
#endif
            __syncthreads();
        }
        if (k0 < K) {
            u32 k = k0 + first;
            fetch_row(from, row < count, k, rows);
            fetch_weights<FORMAT>(matrix, ROW_BYTES, n0 + row, N, k, weights);
#ifdef GLU
            fetch_weights<UP_FORMAT>(up_matrix, UP_ROW_BYTES, n0 + row, N, k, up_weights);
#endif
        }
        if (k0 > 0) {
            add_tile<FORMAT>(xs, ws, sums);
#ifdef GLU
            add_tile<UP_FORMAT>(xs, us, ups);
#endif
        }
    }
#pragma unroll
    for (u32 i = 0; i < 16; i++) {
        u32 m = row_of(i), n = n0 + column_of(i);
        if (m >= count || n >= N) continue;
#ifdef GLU
        float u = ups[i];
#else
        float u = 0.0f;
#endif
        float v = sums[i];
        y[size_t(order[pairs + m]) * N + n] = EPILOGUE(v, u, expert, n);
    }
}
