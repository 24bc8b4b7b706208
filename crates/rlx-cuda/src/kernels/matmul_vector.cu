// matmul      y[m, n] = epilogue(sum over k of x[m, k] * W[n, k]), for few rows of x
// shapes      x f32[M, K]    W FORMAT[N, K]    y f32[M, N]
// bytes       W once; x from a cache, for each column
// launch      a block of 4 warps is 4 columns: a warp is a column, a lane takes 8 of each 256 elements of k
// numerics    f32; a sum for each lane in order of k, then a tree
KERNEL(matmul_vector)(const float* __restrict__ x, const u8* __restrict__ w WEIGHT_PARAMETER BIAS_PARAMETER
                      RESIDUAL_PARAMETER, float* y) {
    u32 n = blockIdx.x * 4 + threadIdx.x / WARP;
    u32 lane = threadIdx.x % WARP;
    if (n >= N) return;
    float sums[M] = {};
    add_products<FORMAT, M>(x, w + size_t(n) * ROW_BYTES, lane, sums);
#ifdef GLU
    float ups[M] = {};
    add_products<UP_FORMAT, M>(x, up + size_t(n) * UP_ROW_BYTES, lane, ups);
#endif
#pragma unroll
    for (u32 m = 0; m < M; m++) {
        float v = warp_sum(sums[m]);
#ifdef GLU
        float u = warp_sum(ups[m]);
#else
        float u = 0.0f;
#endif
        if (lane == 0) y[size_t(m) * N + n] = EPILOGUE(v, u, m, n);
    }
}
