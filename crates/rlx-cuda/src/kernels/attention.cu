// attention   y[i, h] = softmax(cap(scale q[i, h] k^T)) v over the positions that row i sees      arXiv:2205.14135
// shapes      q, y f32[ROWS, HEADS * HEAD]    caches CACHE[KV, CAPACITY, HEAD]    ctl u32[16]    sinks f32[HEADS]
// bytes       q and y once; the positions that are seen, for each query head
// launch      a block of 4 warps is a row of a head; warps take positions in turn
// numerics    f32; each warp has an online softmax, which are joined at the end
#define WARPS 4
#define PER_LANE ((HEAD + WARP - 1) / WARP)

KERNEL(attention)(const float* __restrict__ q, const u8* __restrict__ keys, const u8* __restrict__ values,
                  const u32* __restrict__ ctl SINKS_PARAMETER, float* __restrict__ y) {
    wait_for_previous();
    __shared__ float most_of[WARPS], total_of[WARPS];
    __shared__ float sums_of[WARPS][HEAD];
    u32 row = blockIdx.x, head = blockIdx.y;
    u32 past = ctl[0], len = min(ctl[1], ROWS);
    if (row >= len) return;
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    u32 position = past + row, held = past + len;
#ifndef RING
    held = min(held, CAPACITY);
#endif
    u32 end = min((position / BLOCK + 1u) * BLOCK, held);
    u32 start = WINDOW < position ? position - WINDOW : 0u;
    start = min(start, end);
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
        score = warp_sum(score);
#ifdef SOFTCAP
        score = SOFTCAP * tanhf(score / SOFTCAP);
#endif
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
