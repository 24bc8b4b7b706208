// One row of a head, by a block of THREADS, whose warps take positions in turn. Each has an online softmax, in f32;
// they are joined at the end.
#define WARPS (THREADS / WARP)
#define PER_LANE ((HEAD + WARP - 1) / WARP)

#ifdef SINKS
#define SINKS_PARAMETER , const float* __restrict__ sinks
#define SINKS_ARGUMENT , sinks
#else
#define SINKS_PARAMETER
#define SINKS_ARGUMENT
#endif

// Where what a row of len sees begins and ends.
__device__ __forceinline__ void seen_by(u32 row, u32 past, u32 len, u32& start, u32& end) {
    u32 position = past + row, held = past + len;
#ifndef RING
    held = min(held, CAPACITY);
#endif
    end = min((position / BLOCK + 1u) * BLOCK, held);
    start = min(WINDOW < position ? position - WINDOW : 0u, end);
}

__device__ __forceinline__ float capped(float score) {
#ifdef SOFTCAP
    return SOFTCAP * tanhf(score / SOFTCAP);
#else
    return score;
#endif
}

__device__ __forceinline__ void attend_row(u32 row, u32 head, u32 past, u32 len, const float* __restrict__ q,
                                           const u8* __restrict__ keys, const u8* __restrict__ values SINKS_PARAMETER,
                                           float* __restrict__ y) {
    __shared__ float most_of[WARPS], total_of[WARPS];
    __shared__ float sums_of[WARPS][HEAD];
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    u32 start, end;
    seen_by(row, past, len, start, end);
    q += size_t(row) * HEADS * HEAD + head * HEAD;
    y += size_t(row) * HEADS * HEAD + head * HEAD;
    size_t first = size_t(head / (HEADS / KV)) * CAPACITY;
    float query[PER_LANE], sums[PER_LANE];
#pragma unroll
    for (u32 j = 0; j < PER_LANE; j++) {
        u32 e = lane + j * WARP;
        query[j] = e < HEAD ? q[e] * SCALE : 0.0f;
        sums[j] = 0.0f;
    }
    float most = -3.0e38f, total = 0.0f;
    for (u32 p = start + warp; p < end; p += WARPS) {
        size_t at = (first + p % CAPACITY) * ROW_BYTES;
        float score = 0.0f;
#pragma unroll
        for (u32 j = 0; j < PER_LANE; j++) {
            u32 e = lane + j * WARP;
            if (e < HEAD) score = fmaf(query[j], cached(keys + at, e), score);
        }
        score = capped(warp_sum(score));
        float higher = fmaxf(most, score);
        float fade = expf(most - higher), weight = expf(score - higher);
        most = higher;
        total = total * fade + weight;
#pragma unroll
        for (u32 j = 0; j < PER_LANE; j++) {
            u32 e = lane + j * WARP;
            if (e < HEAD) sums[j] = sums[j] * fade + weight * cached(values + at, e);
        }
    }
    if (lane == 0) {
        most_of[warp] = most;
        total_of[warp] = total;
    }
#pragma unroll
    for (u32 j = 0; j < PER_LANE; j++) {
        u32 e = lane + j * WARP;
        if (e < HEAD) sums_of[warp][e] = sums[j];
    }
    __syncthreads();
    float highest = most_of[0];
    for (u32 w = 1; w < WARPS; w++) highest = fmaxf(highest, most_of[w]);
    float all = 0.0f;
#ifdef SINKS
    highest = fmaxf(highest, sinks[head]);
    all = expf(sinks[head] - highest);
#endif
    float share[WARPS];
    for (u32 w = 0; w < WARPS; w++) {
        share[w] = expf(most_of[w] - highest);
        all += total_of[w] * share[w];
    }
    for (u32 e = threadIdx.x; e < HEAD; e += WARPS * WARP) {
        float v = 0.0f;
        for (u32 w = 0; w < WARPS; w++) v += sums_of[w][e] * share[w];
        y[e] = all > 0.0f ? v / all : 0.0f;
    }
}
