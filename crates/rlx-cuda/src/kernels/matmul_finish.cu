// matmul      y[m, n] = epilogue((sums[m, n] + (sums[M + m, n] + lows[m, n]) / 2048) * scales[m] * of_w[n]), behind
//             products of halves
// shapes      sums f32[PARTS M, N], lows f32[M, N] and, with a gate, ups of these sizes    scales f32[M]    of_w f32[N]
//             y f32[M, N], N a multiple of 4
// bytes       4*M*N for each part, 4*M*N written, 4*M*N of a residual
// launch      a thread has four columns of a row, a block of 128 threads a part of one
// numerics    f32
struct Sums {
    // Null: weights of one part, and without scales.
    const float *sums, *lows, *of_w;
};

// Four products of row m from column n on.
__device__ __forceinline__ void four_sums(const Sums& of, u32 m, u32 n, float scale, float* v) {
    float4 high = *(const float4*)(of.sums + size_t(m) * N + n), low = {0.0f, 0.0f, 0.0f, 0.0f};
#if PARTS == 2
    low = *(const float4*)(of.sums + size_t(M + m) * N + n);
#endif
    if (of.lows) {
        float4 other = *(const float4*)(of.lows + size_t(m) * N + n);
        low.x += other.x, low.y += other.y, low.z += other.z, low.w += other.w;
    }
    v[0] = high.x, v[1] = high.y, v[2] = high.z, v[3] = high.w;
    float l[4] = {low.x, low.y, low.z, low.w};
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        v[j] = fmaf(l[j], 1.0f / 2048.0f, v[j]) * scale;
        if (of.of_w) v[j] *= of.of_w[n + j];
    }
}

KERNEL(matmul_finish)(PARAMETERS) {
    wait_for_previous();
    u32 m = blockIdx.x, first = (blockIdx.y * 128 + threadIdx.x) * 4;
    if (IS_LATE(m) || first >= N) return;
    float scale = scales[m], v[4], u[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    size_t at = size_t(m) * N + first;
    ADDED
    four_sums(Sums{SUMS}, m, first, scale, v);
#ifdef GLU
    four_sums(Sums{UPS}, m, first, scale, u);
#endif
    Four of;
#pragma unroll
    for (u32 j = 0; j < 4; j++) of[j] = EPILOGUE(v[j], u[j], 0, j);
    of.put(y + at);
}
