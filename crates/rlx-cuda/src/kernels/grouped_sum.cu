// grouped_sum y[m, n] = sum over j of shares[m, j] * p[m, j, n], and a residual
// shapes      p f32[M, TOP_K, N]    shares f32[M, TOP_K]    residual, y f32[M, N]
// bytes       4*TOP_K*N read for a row, as many of a residual as are written: 4*N
// launch      a thread has an element, a block 256 of a row
// numerics    f32; experts are added in order
KERNEL(grouped_sum)(const float* __restrict__ p, const float* __restrict__ shares SUM_PARAMETERS CTL_PARAMETER, float* y) {
    wait_for_previous();
    u32 m = blockIdx.x, n = blockIdx.y * 256 + threadIdx.x;
    if (IS_LATE(m) || n >= N) return;
    float sum = 0.0f;
    for (u32 j = 0; j < TOP_K; j++) {
        u32 pair = m * TOP_K + j;
        sum = fmaf(shares[pair], p[size_t(pair) * N + n], sum);
    }
    y[size_t(m) * N + n] = FINISH(sum, m, n);
}
