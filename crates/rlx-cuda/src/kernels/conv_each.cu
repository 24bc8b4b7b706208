// conv        y[n, o, p] = bias[o] + sum over c, t of x[n, c, p * stride + t * dilation - low] * w[o, c, t]
// shapes      x T[N, CHANNELS, ..]    w T[FILTERS, DEPTH, ..], TAPS of each    bias T[FILTERS]    y T[N, FILTERS, ..]
// bytes       y's once; x's and w's once for each result that they are in, from caches
// launch      a thread is a result
// numerics    f32, tap by tap; rounded once
KERNEL(conv_each)(const T* __restrict__ x, const T* __restrict__ w, T* __restrict__ y
#ifdef BIAS
                  , const T* __restrict__ bias
#endif
                  NUMBERS) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= N) return;
    u32 filter = i / PLACES % FILTERS;
    Place p;
    u32 rest = i % PLACES;
    BEGIN
    x += (size_t(i / PLACES / FILTERS) * CHANNELS + filter / OWN * DEPTH) * PLANE;
    w += size_t(filter) * DEPTH * TAPS;
#ifdef BIAS
    float sum = value_of(bias[filter]);
#else
    float sum = 0.0f;
#endif
#pragma unroll 4
    for (u32 t = 0; t < TAPS; t++) {
        u32 tap = t, at = 0;
        bool inside = true;
        REACH
        if (!inside) continue;
        for (u32 c = 0; c < DEPTH; c++) {
            sum = fmaf(value_of(x[size_t(c) * PLANE + at]), value_of(w[size_t(c) * TAPS + t]), sum);
        }
    }
    y[i] = rounded_to<T>(sum);
}
