// matmul      y[m, n] = epilogue(sum over k of x[m, k] * W[n, k]), for few rows of x
// shapes      x f32[M, K]    W FORMAT[N, K]    y f32[M, N]
// bytes       W once; x from a cache, for each COLUMNS columns
// launch      a block of 4 warps is COLUMNS columns: its lanes take 8 elements of k each in turn
// numerics    f32; a sum for each lane in order of k, then a tree for each warp, then warps in order
#define WARPS (128u / WARP)

KERNEL(matmul_vector)(const float* __restrict__ x, const u8* __restrict__ w WEIGHT_PARAMETER BIAS_PARAMETER
                      RESIDUAL_PARAMETER, float* y) {
    __shared__ float parts[WARPS][M * COLUMNS];
    u32 n0 = blockIdx.x * COLUMNS, thread = threadIdx.x, warp = thread / WARP, last = N - 1 - n0;
    float sums[M][COLUMNS] = {};
    add_products<FORMAT, M, COLUMNS, WARPS>(x, w + size_t(n0) * ROW_BYTES, ROW_BYTES, last, thread, sums);
#ifdef GLU
    __shared__ float up_parts[WARPS][M * COLUMNS];
    float ups[M][COLUMNS] = {};
    add_products<UP_FORMAT, M, COLUMNS, WARPS>(x, up + size_t(n0) * UP_ROW_BYTES, UP_ROW_BYTES, last, thread, ups);
#endif
#pragma unroll
    for (u32 m = 0; m < M; m++) {
#pragma unroll
        for (u32 c = 0; c < COLUMNS; c++) {
            float v = warp_sum(sums[m][c]);
            if (thread % WARP == 0) parts[warp][m * COLUMNS + c] = v;
#ifdef GLU
            float u = warp_sum(ups[m][c]);
            if (thread % WARP == 0) up_parts[warp][m * COLUMNS + c] = u;
#endif
        }
    }
    __syncthreads();
    u32 m = thread / COLUMNS, c = thread % COLUMNS, n = n0 + c;
    if (m >= M || n >= N) return;
    float v = 0.0f, u = 0.0f;
#pragma unroll
    for (u32 i = 0; i < WARPS; i++) {
        v += parts[i][m * COLUMNS + c];
#ifdef GLU
        u += up_parts[i][m * COLUMNS + c];
#endif
    }
    y[size_t(m) * N + n] = EPILOGUE(v, u, m, n);
}
