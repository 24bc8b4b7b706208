// route       ids[m, i], shares[m, i]: the experts of row m with the largest choice, the largest first, and what they
//             count for
// shapes      logits f32[M, EXPERTS]    bias f32[EXPERTS]    ids u32[M, TOP_K]    shares f32[M, TOP_K]
// bytes       4 a logit, 8 an expert that is chosen; an exponential and EXPERTS comparisons for each logit
// launch      a block of 128 threads is a row; an expert's place is how many others are above it
// numerics    f32; the order is that of bits, so that every place is taken once, whatever the numbers are
#define THREADS 128

// Bits that ascend as numbers do: of both zeros the same, of NaN the largest.
__device__ __forceinline__ u32 key_of(float x) {
    u32 bits = __float_as_uint(x), size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return 0xffffffffu;
    if (size == 0) return 0x80000000u;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float value_of(u32 key) { return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key); }

KERNEL(route)(const float* __restrict__ logits BIAS_PARAMETER CTL_PARAMETER, u32* ids, float* shares) {
    wait_for_previous();
    __shared__ float scores[EXPERTS];
    __shared__ u32 keys[EXPERTS];
    __shared__ float chosen[TOP_K];
    u32 row = blockIdx.x, thread = threadIdx.x;
    if (IS_LATE(row)) return;
    const float* x = logits + size_t(row) * EXPERTS;
#ifdef SIGMOID
    for (u32 e = thread; e < EXPERTS; e += THREADS) scores[e] = 1.0f / (1.0f + expf(-x[e]));
#else
    __shared__ float partial[THREADS];
    // A logit of minus infinity is as far below the largest as counts.
    float largest = -3.4e38f, sum = 0.0f;
    for (u32 e = thread; e < EXPERTS; e += THREADS) largest = fmaxf(largest, x[e]);
    partial[thread] = largest;
    __syncthreads();
    for (u32 i = 0; i < THREADS; i++) largest = fmaxf(largest, partial[i]);
    __syncthreads();
    for (u32 e = thread; e < EXPERTS; e += THREADS) {
        scores[e] = expf(fmaxf(x[e] - largest, -90.0f));
        sum += scores[e];
    }
    partial[thread] = sum;
    __syncthreads();
    sum = 0.0f;
    for (u32 i = 0; i < THREADS; i++) sum += partial[i];
    for (u32 e = thread; e < EXPERTS; e += THREADS) scores[e] /= sum;
#endif
    for (u32 e = thread; e < EXPERTS; e += THREADS) keys[e] = key_of(CHOICE(e));
    __syncthreads();
#ifdef GROUPS
    // The choice of a group: the sum of its largest, each the next behind the one before.
    __shared__ u32 of_groups[GROUPS];
    const u32 each = EXPERTS / GROUPS;
    for (u32 g = thread; g < GROUPS; g += THREADS) {
        float total = 0.0f;
        u32 above = 0xffffffffu, at = 0;
        for (u32 i = 0; i < GROUP_SUM; i++) {
            u32 best = 0, where = 0;
            bool found = false;
            for (u32 e = 0; e < each; e++) {
                u32 key = keys[g * each + e];
                bool next = i == 0 || key < above || (key == above && e > at);
                if (next && (!found || key > best)) {
                    best = key;
                    where = e;
                    found = true;
                }
            }
            total += value_of(best);
            above = best;
            at = where;
        }
        of_groups[g] = key_of(total);
    }
    __syncthreads();
    for (u32 e = thread; e < EXPERTS; e += THREADS) {
        u32 g = e / each, own = of_groups[g], place = 0;
        for (u32 other = 0; other < GROUPS; other++) {
            if (of_groups[other] > own || (of_groups[other] == own && other < g)) place++;
        }
        if (place >= TOP_GROUPS) keys[e] = 0;
    }
    __syncthreads();
#endif
    for (u32 e = thread; e < EXPERTS; e += THREADS) {
        u32 own = keys[e], place = 0;
        for (u32 other = 0; other < EXPERTS; other++) {
            if (keys[other] > own || (keys[other] == own && other < e)) place++;
        }
        if (place < TOP_K) {
            chosen[place] = scores[e];
            ids[size_t(row) * TOP_K + place] = e;
        }
    }
    __syncthreads();
    float divisor = 1.0f;
#ifdef NORMALISE
    divisor = 0.0f;
    for (u32 i = 0; i < TOP_K; i++) divisor += chosen[i];
    divisor = fmaxf(divisor, LEAST_SUM);
#endif
    for (u32 i = thread; i < TOP_K; i += THREADS) shares[size_t(row) * TOP_K + i] = chosen[i] / divisor * SCALE;
}
