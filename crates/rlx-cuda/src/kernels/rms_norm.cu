// rms_norm    y[r, c] = x[r, c] * w[c] / sqrt(mean(x[r, :]^2) + eps), with a residual or a gate    arXiv:1910.07467
// shapes      x, y, second f32[rows, K]    w f32[K]
// bytes       12*rows*K and, with a second operand, 4*rows*K more; K of w from a cache
// launch      a block of THREADS threads is a row
// numerics    f32; a sum for each thread, then warps in order
KERNEL(rms_norm)(const float* x, const float* __restrict__ w SECOND_PARAMETER CTL_PARAMETER, float* y) {
    wait_for_previous();
    u32 row = blockIdx.x;
    if (IS_LATE(row)) return;
    x += size_t(row) * K;
    y += size_t(row) * K;
    float sum = 0.0f;
    for (u32 c = threadIdx.x; c < K; c += THREADS) sum = fmaf(x[c], x[c], sum);
    float scale = rsqrtf(block_sum<THREADS>(sum) / float(K) + EPS);
    for (u32 c = threadIdx.x; c < K; c += THREADS) y[c] = JOINED(x[c] * scale * w[c]);
}
