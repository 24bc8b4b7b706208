// causal_conv1d  y[i, c] = act(sum over j of w[c, j] * p[i + j, c]), p the state's rows and then those of x
//   gated        p goes on with b * x, and y is c * act(..), where a row of x has b, c and x
// shapes         x f32[ROWS, PARTS * CHANNELS]    w f32[CHANNELS, TAPS]    state f32[TAPS - 1, CHANNELS]    y f32
// bytes          4 an element of x and of y, TAPS times more from a cache; the state twice
// launch         blocks of 128 threads; a thread is a channel of BLOCK rows: those of the first rows read the state and
//                then write it, others read rows of x alone
// numerics       f32, the oldest tap first; rows at or past the real ones are not made
#define PAST (TAPS - 1u)

// Of channel c, row i of the state's and then of x's.
__device__ __forceinline__ float p(const float* __restrict__ x, const float* state, u32 i, u32 c) {
    if (i < PAST) return state[size_t(i) * CHANNELS + c];
    const float* row = x + size_t(i - PAST) * PARTS * CHANNELS + c;
#if PARTS == 3
    return row[0] * row[2 * CHANNELS];
#else
    return row[0];
#endif
}

KERNEL(causal_conv1d)(const float* __restrict__ x, const float* __restrict__ w, float* state,
                      const u32* __restrict__ ctl, float* __restrict__ y) {
    wait_for_previous();
    u32 c = blockIdx.x * 128 + threadIdx.x, first = blockIdx.y * BLOCK;
    if (c >= CHANNELS || ctl[4] != 0) return;
    u32 len = min(ROWS, ctl[1]);
    for (u32 i = first; i < min(first + BLOCK, len); i++) {
        float sum = 0.0f;
#pragma unroll
        for (u32 j = 0; j < TAPS; j++) sum = fmaf(w[c * TAPS + j], p(x, state, i + j, c), sum);
        sum = apply(sum);
#if PARTS == 3
        sum *= x[(size_t(i) * PARTS + 1) * CHANNELS + c];
#endif
        y[size_t(i) * CHANNELS + c] = sum;
    }
    if (first > 0) return;
    // A row is written behind the read of the one that takes its place, which is not before it.
    for (u32 r = 0; r < PAST; r++) state[size_t(r) * CHANNELS + c] = p(x, state, len + r, c);
}
