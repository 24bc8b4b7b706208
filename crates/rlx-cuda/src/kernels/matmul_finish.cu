// matmul      y[m, n] = epilogue((sums[m, n] + sums[M + m, n] / 2048) * scales[m]), behind a product of halves
// shapes      sums f32[PARTS M, N] and, with a gate, ups of that size    scales f32[M]    y f32[M, N], N a multiple of 4
// bytes       4*PARTS*M*N for each product, 4*M*N written, 4*M*N of a residual
// launch      a thread has four columns of a row
// numerics    f32
__device__ __forceinline__ void four_sums(const float* sums, u32 m, u32 n, float scale, float* v) {
    float4 high = *(const float4*)(sums + size_t(m) * N + n);
    v[0] = high.x, v[1] = high.y, v[2] = high.z, v[3] = high.w;
#if PARTS == 2
    float4 low = *(const float4*)(sums + size_t(M + m) * N + n);
    float l[4] = {low.x, low.y, low.z, low.w};
#pragma unroll
    for (u32 j = 0; j < 4; j++) v[j] = fmaf(l[j], 1.0f / 2048.0f, v[j]);
#endif
#pragma unroll
    for (u32 j = 0; j < 4; j++) v[j] *= scale;
}

KERNEL(matmul_finish)(PARAMETERS) {
    wait_for_previous();
    u32 m = blockIdx.y, first = (blockIdx.x * 128 + threadIdx.x) * 4;
    if (IS_LATE(m) || first >= N) return;
    float scale = scales[m], v[4], u[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    four_sums(sums, m, first, scale, v);
#ifdef GLU
    four_sums(ups, m, first, scale, u);
#endif
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        u32 n = first + j;
        y[size_t(m) * N + n] = EPILOGUE(v[j], u[j], m, n);
    }
}
