// A query of a head, by a block of THREADS threads: a thread has one of THREADS keys, then columns of values.
#define EACH ((WIDTH + THREADS - 1) / THREADS)

__device__ __forceinline__ float block_max(float x) {
    __shared__ float parts[THREADS / WARP];
    x = warp_max(x);
    __syncthreads();
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = x;
    __syncthreads();
    for (u32 i = 0; i < THREADS / WARP; i++) x = fmaxf(x, parts[i]);
    return x;
}

__device__ __forceinline__ void attend_query(u32 i, u32 h, u32 b, const T* __restrict__ q, const T* __restrict__ k,
                                             const T* __restrict__ v, T* __restrict__ y MASK_PARAMETERS NUMBERS) {
    __shared__ float weights[THREADS];
    u32 t = threadIdx.x;
    q += Q_AT(b, i, h);
    k += K_AT(b, 0, h / GROUP);
    v += V_AT(b, 0, h / GROUP);
    float sums[EACH] = {}, most = MINUS_INFINITY, total = 0.0f;
    u32 end = KEYS_END(i);
    for (u32 first = FIRST_KEY(i); first < end; first += THREADS) {
        u32 j = first + t;
        float score = MINUS_INFINITY;
        if (j < end) {
            const T* key = k + K_AT(0, j, 0);
            float sum = 0.0f;
#pragma unroll 8
            for (u32 e = 0; e < HEAD; e++) sum = fmaf(value_of(q[e]), value_of(key[e]), sum);
            score = capped(sum * SCALE);
            score = MASKED(score, b, h, i, j);
        }
        float higher = fmaxf(most, block_max(score)), base = base_of(higher);
        float fade = expf(most - base), weight = expf(score - base);
        most = higher;
        total = total * fade + weight;
        // What block_max ends with is behind the last reads of weights.
        weights[t] = weight;
        __syncthreads();
        u32 here = min(end - first, THREADS);
#pragma unroll
        for (u32 n = 0; n < EACH; n++) {
            u32 c = n * THREADS + t;
            if (c >= WIDTH) continue;
            const T* value = v + V_AT(0, first, 0) + c;
            float sum = sums[n] * fade;
            for (u32 p = 0; p < here; p++) sum = fmaf(weights[p], value_of(value[V_AT(0, p, 0)]), sum);
            sums[n] = sum;
        }
    }
    float all = block_sum<THREADS>(total);
    y += Y_AT(b, i, h);
#pragma unroll
    for (u32 n = 0; n < EACH; n++) {
        u32 c = n * THREADS + t;
        if (c < WIDTH) y[c] = rounded_to<T>(all == 0.0f ? 0.0f : sums[n] / all);
    }
}
