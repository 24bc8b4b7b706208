// softmax     y[j] = exp(x[j] - max) / sum of exp(x - max), along an axis
// shapes      x, y T[.., N, INNER], the axis in the middle
// bytes       x once where a thread keeps its elements (KEPT of them), else three times; y once
// launch      a block of THREADS threads has THREADS / PARTS runs of the axis; PARTS threads share one
// numerics    f32; a part for each thread, then a tree; a run of minus infinities is NaN; rounded once
// What all threads of a run have together, in each of them.
template <bool IsSum>
__device__ __forceinline__ float of_run(float x, float* shares, u32 first, u32 part) {
    __syncthreads();
    shares[first + part] = x;
    for (u32 half = PARTS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (part < half) {
            float other = shares[first + part + half];
            x = IsSum ? x + other : fmaxf(x, other);
            shares[first + part] = x;
        }
    }
    __syncthreads();
    return shares[first];
}

#if KEPT
#define EACH_ELEMENT _Pragma("unroll") for (u32 e = 0, j = part; e < KEPT; e++, j += PARTS) if (j < N)
#define ELEMENT kept[e]
#else
#define EACH_ELEMENT for (u32 j = part; j < N; j += PARTS)
#define ELEMENT value_of(x[size_t(j) * INNER])
#endif

KERNEL(softmax)(const T* x, T* y) {
    wait_for_previous();
    __shared__ float shares[THREADS];
    u32 t = threadIdx.x, part = PART(t), run = blockIdx.x * (THREADS / PARTS) + OWN(t), first = OWN(t) * PARTS;
    // A thread behind the last run goes over that one again, and writes nothing.
    bool is_run = run < RUNS;
    run = min(run, RUNS - 1);
    size_t start = size_t(run / INNER) * N * INNER + run % INNER;
    x += start;
    y += start;
    float most = MINUS_INFINITY, sum = 0.0f;
#if KEPT
    float kept[KEPT];
#pragma unroll
    for (u32 e = 0, j = part; e < KEPT; e++, j += PARTS) kept[e] = j < N ? value_of(x[size_t(j) * INNER]) : 0.0f;
#endif
    EACH_ELEMENT most = fmaxf(most, ELEMENT);
    most = of_run<false>(most, shares, first, part);
#if KEPT
    EACH_ELEMENT kept[e] = expf(kept[e] - most);
    EACH_ELEMENT sum += kept[e];
#else
    EACH_ELEMENT sum += expf(ELEMENT - most);
#endif
    sum = of_run<true>(sum, shares, first, part);
    if (!is_run) return;
#if KEPT
    EACH_ELEMENT y[size_t(j) * INNER] = rounded_to<T>(kept[e] / sum);
#else
    EACH_ELEMENT y[size_t(j) * INNER] = rounded_to<T>(expf(ELEMENT - most) / sum);
#endif
}
