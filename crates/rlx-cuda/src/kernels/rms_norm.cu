// rms_norm    y[r, c] = x[r, c] * w[c] / sqrt(mean(x[r, :]^2) + eps), with a residual or a gate    arXiv:1910.07467
// shapes      x, y, second f32[rows, K]    w f32[K]
// bytes       12*rows*K and, with a second operand, 4*rows*K more; K of w from a cache
// launch      a block of THREADS threads is a row; a thread has EACH elements beside each other at a time
// numerics    f32; a sum for each thread, then warps in order
#if EACH == 4
typedef Four Some;
#else
struct Some {
    float of;

    __device__ __forceinline__ Some() : of(0.0f) {}
    __device__ __forceinline__ explicit Some(const float* at) : of(*at) {}
    __device__ __forceinline__ float& operator[](size_t) { return of; }
    __device__ __forceinline__ void put(float* at) const { *at = of; }
};
#endif

KERNEL(rms_norm)(const float* x, const float* __restrict__ w SECOND_PARAMETER CTL_PARAMETER, float* y) {
    wait_for_previous();
    u32 row = blockIdx.x;
    if (IS_LATE(row)) return;
    x += size_t(row) * K;
    y += size_t(row) * K;
    float sum = 0.0f;
    for (u32 c = threadIdx.x * EACH; c < K; c += THREADS * EACH) {
        Some of(x + c);
#pragma unroll
        for (u32 j = 0; j < EACH; j++) sum = fmaf(of[j], of[j], sum);
    }
    float scale = rsqrtf(block_sum<THREADS>(sum) / float(K) + EPS);
    for (u32 c = threadIdx.x * EACH; c < K; c += THREADS * EACH) {
        Some of(x + c), by(w + c), other;
#ifdef HAS_SECOND
        other = Some(second + size_t(row) * K + c);
#endif
#pragma unroll
        for (u32 j = 0; j < EACH; j++) of[j] = JOINED(of[j] * scale * by[j], other[j]);
        of.put(y + c);
    }
}
