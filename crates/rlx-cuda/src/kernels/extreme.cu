// extreme     y[o, c] = the lowest j of the largest x[o, j, c], or of the smallest
// shapes      x TYPE[outer, N, INNER]    y u32[outer, INNER]
// bytes       x's once
// launch      blocks of 256 threads; a block is a run of N elements, or a thread is
// numerics    exact; a NaN is taken only where there is nothing else
struct Best {
    KEY key;
    u32 index;
};
__device__ __forceinline__ Best better(Best a, Best b) {
    return b.key > a.key || (b.key == a.key && b.index < a.index) ? b : a;
}

KERNEL(extreme)(const TYPE* __restrict__ x, u32* __restrict__ y NUMBERS) {
    wait_for_previous();
    u32 own = threadIdx.x % TEAM;
    u32 run = blockIdx.x * (256 / TEAM) + threadIdx.x / TEAM, at = min(run, RUNS - 1u);
    u32 outer = BY_INNER(at);
    x += size_t(outer * N) * INNER + (at - outer * INNER);
    Best best = {0, own};
    for (u32 j = own; j < N; j += min(TEAM, N - j)) {
        auto value = value_of(x[size_t(j) * INNER]);
        // Of NaN it is 0, which no number beside one has.
        KEY key = IS_NAN(value) ? KEY(0) : KEY(ORDERED(key_of(value)));
        if (key > best.key) best = {key, j};
    }
    if (TEAM > 1) {
        __shared__ Best all[256];
        all[threadIdx.x] = best;
        for (u32 by = 128; by > 0; by /= 2) {
            __syncthreads();
            if (threadIdx.x < by) all[threadIdx.x] = better(all[threadIdx.x], all[threadIdx.x + by]);
        }
        if (own == 0) best = all[0];
    }
    if (own == 0 && run < RUNS) y[run] = best.index;
}
