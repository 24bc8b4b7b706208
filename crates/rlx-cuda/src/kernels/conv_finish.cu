// conv        y[n, o, p] = (sums[o, np] + (sums[FILTERS + o, np] + lows[o, np]) / 2048) * scales[n] * of_w[o] + bias[o]
// shapes      sums f32[FILTER_PARTS FILTERS, CHUNK], lows f32[FILTERS, CHUNK], places from FIRST on    scales f32[N]
//             of_w f32[FILTERS]    y T[N, FILTERS, PLACES]
// bytes       4*FILTERS*CHUNK for each part; y's once
// launch      a thread is a result
// numerics    f32, rounded once
KERNEL(conv_finish)(const float* __restrict__ sums PARAMETERS, T* __restrict__ y NUMBERS) {
    wait_for_previous();
    u32 filter = blockIdx.x / BLOCKS, own = blockIdx.x % BLOCKS * 256 + threadIdx.x, column = FIRST + own;
    if (own >= CHUNK || column >= COLUMNS) return;
    float low = 0.0f;
#if FILTER_PARTS == 2
    low += sums[size_t(FILTERS + filter) * CHUNK + own];
#endif
#ifdef LOWS
    low += lows[size_t(filter) * CHUNK + own];
#endif
    float v = fmaf(low, 1.0f / 2048.0f, sums[size_t(filter) * CHUNK + own]) * scales[column / PLACES];
#ifdef SCALES_OF_W
    v *= of_w[filter];
#endif
#ifdef BIAS
    v += value_of(bias[filter]);
#endif
    y[(size_t(column / PLACES) * FILTERS + filter) * PLACES + column % PLACES] = rounded_to<T>(v);
}
