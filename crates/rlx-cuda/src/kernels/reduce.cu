// reduce      y[i] = all elements of x along the reduced axes, joined
// shapes      x T of any rank, COUNT elements of N results    y T[N]
// bytes       x and y once
// launch      a block of THREADS threads has THREADS / PARTS results; PARTS threads share one, and take turns
// numerics    SUM: f32 for halves, integers of 32 or 64 bits; a part for each thread, then a tree; rounded once
KERNEL(reduce)(const T* __restrict__ x, T* __restrict__ y NUMBERS) {
    wait_for_previous();
    u32 t = threadIdx.x, part = PART(t), i = blockIdx.x * (THREADS / PARTS) + OWN(t);
    SUM all = START;
    if (i < N) {
        const T* at = x + KEPT(i);
#pragma unroll 4
        for (u32 k = part; k < COUNT; k += PARTS) all = JOINED(all, SUM(value_of(at[ALONG(k)])));
    }
#if IS_SHARED
    __shared__ SUM shares[THREADS];
    // Part 0 of a result stands at the place of its thread, and others behind it in the order of parts.
    u32 place = OWN(t) * PARTS + part;
    shares[place] = all;
    for (u32 half = PARTS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (part < half) {
            all = JOINED(all, shares[place + half]);
            shares[place] = all;
        }
    }
#endif
    if (i < N && part == 0) y[i] = rounded_to<T>(RESULT(all));
}
