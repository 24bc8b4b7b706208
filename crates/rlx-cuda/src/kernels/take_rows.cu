// take_rows   y[i, :] = x[len - ROWS + i, :], or x[0, :] before the first
// shapes      x f32[OF, K]    y f32[ROWS, K]    ctl u32[16]
// bytes       8*ROWS*K
// launch      blocks of 128 threads; a thread is an element
// numerics    a copy
KERNEL(take_rows)(const float* __restrict__ x, const u32* __restrict__ ctl, float* __restrict__ y) {
    wait_for_previous();
    u32 i = blockIdx.x * 128 + threadIdx.x;
    if (i >= ROWS * K) return;
    u32 row = i / K, len = min(ctl[1], OF);
    u32 from = len + row >= ROWS ? len + row - ROWS : 0u;
    y[i] = x[size_t(min(from, OF - 1u)) * K + i % K];
}
