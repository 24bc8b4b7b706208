// pool        y[n, c, p] = the largest or the mean over t of x[n, c, p * stride + t * dilation - low]
// shapes      x T[N, C, ..]    y T[N, C, ..]
// bytes       y's once, x's once for each window that they are in, from a cache
// launch      a thread is a result
// numerics    the largest is exact; a mean is f32, tap by tap, rounded once
KERNEL(pool)(const T* __restrict__ x, T* __restrict__ y NUMBERS) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= N) return;
    Place p;
    u32 rest = i % PLACES;
    BEGIN
    x += size_t(i / PLACES) * PLANE;
    float all = START;
    u32 count = 0;
    for (u32 t = 0; t < TAPS; t++) {
        u32 tap = t, at = 0;
        bool inside = true;
        REACH
        if (!inside) continue;
        float v = value_of(x[at]);
        all = NEXT(all, v, count);
        count++;
    }
    y[i] = rounded_to<T>(RESULT(all, count));
}
