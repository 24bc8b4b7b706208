// attention_split  of split j of the positions that the row sees, for each query head of key and value head k:
//                  stats = max s, sum exp(s - max s)    acc = sum exp(s - max s) v, where s = cap(scale q k^T)
// shapes           q f32[1, KV * GROUP * HEAD]    caches CACHE[KV, CAPACITY, HEAD]    ctl u32[16]
//                  acc f32[KV * SPLITS, GROUP * HEAD]    stats f32[KV * SPLITS, GROUP * 2]
// bytes            the positions that are seen, once for all query heads of a group
// launch           a block of 4 warps is a split of a key and value head; warps take positions in turn
// numerics         f32; each warp has an online softmax for each query head, which are joined at the end
#define WARPS (128u / WARP)
#define PER_LANE ((HEAD + WARP - 1) / WARP)

KERNEL(attention_split)(const float* __restrict__ q, const u8* __restrict__ keys, const u8* __restrict__ values,
                        const u32* __restrict__ ctl, float* __restrict__ acc, float* __restrict__ stats) {
    wait_for_previous();
    __shared__ float most_of[WARPS][GROUP], total_of[WARPS][GROUP];
    __shared__ float sums_of[WARPS][GROUP * HEAD];
    u32 split = blockIdx.x, kv = blockIdx.y, thread = threadIdx.x, warp = thread / WARP, lane = thread % WARP;
    if (ctl[1] == 0) return;
    u32 position = ctl[0], held = position + 1;
#ifndef RING
    held = min(held, CAPACITY);
#endif
    u32 last = min((position / BLOCK + 1u) * BLOCK, held);
    u32 start = min(WINDOW < position ? position - WINDOW : 0u, last);
    // Whole blocks of 32 for each split, as long as there are any.
    u32 each = (max((last - start + SPLITS - 1) / SPLITS, LEAST) + 31) / 32 * 32;
    u32 from = min(start + split * each, last), end = min(from + each, last);
    size_t slot = size_t(kv) * SPLITS + split;
    q += size_t(kv) * GROUP * HEAD;
    float query[GROUP][PER_LANE], sums[GROUP][PER_LANE], most[GROUP], total[GROUP];
#pragma unroll
    for (u32 g = 0; g < GROUP; g++) {
        most[g] = MINUS_INFINITY;
        total[g] = 0.0f;
#pragma unroll
        for (u32 j = 0; j < PER_LANE; j++) {
            u32 e = lane + j * WARP;
            query[g][j] = e < HEAD ? q[g * HEAD + e] * SCALE : 0.0f;
            sums[g][j] = 0.0f;
        }
    }
#pragma unroll 4
    for (u32 p = from + warp; p < end; p += WARPS) {
        size_t at = (size_t(kv) * CAPACITY + p % CAPACITY) * ROW_BYTES;
        float key[PER_LANE], value[PER_LANE];
#pragma unroll
        for (u32 j = 0; j < PER_LANE; j++) {
            u32 e = lane + j * WARP;
            key[j] = e < HEAD ? cached(keys + at, e) : 0.0f;
            value[j] = e < HEAD ? cached(values + at, e) : 0.0f;
        }
#pragma unroll
        for (u32 g = 0; g < GROUP; g++) {
            float score = 0.0f;
#pragma unroll
            for (u32 j = 0; j < PER_LANE; j++) score = fmaf(query[g][j], key[j], score);
            score = warp_sum(score);
#ifdef SOFTCAP
            score = SOFTCAP * tanhf(score / SOFTCAP);
#endif
            // A score that is minus infinity weighs nothing, also where it is the first.
            float higher = fmaxf(most[g], score);
            float fade = most[g] == higher ? 1.0f : expf(most[g] - higher);
            float weight = score == MINUS_INFINITY ? 0.0f : expf(score - higher);
            most[g] = higher;
            total[g] = total[g] * fade + weight;
#pragma unroll
            for (u32 j = 0; j < PER_LANE; j++) sums[g][j] = sums[g][j] * fade + weight * value[j];
        }
    }
#pragma unroll
    for (u32 g = 0; g < GROUP; g++) {
        if (lane == 0) {
            most_of[warp][g] = most[g];
            total_of[warp][g] = total[g];
        }
#pragma unroll
        for (u32 j = 0; j < PER_LANE; j++) {
            u32 e = lane + j * WARP;
            if (e < HEAD) sums_of[warp][g * HEAD + e] = sums[g][j];
        }
    }
    __syncthreads();
    for (u32 i = thread; i < GROUP * HEAD; i += WARPS * WARP) {
        u32 g = i / HEAD;
        float highest = most_of[0][g], all = 0.0f, sum = 0.0f;
        for (u32 w = 1; w < WARPS; w++) highest = fmaxf(highest, most_of[w][g]);
        for (u32 w = 0; w < WARPS; w++) {
            float share = most_of[w][g] == MINUS_INFINITY ? 0.0f : expf(most_of[w][g] - highest);
            all += total_of[w][g] * share;
            sum += sums_of[w][i] * share;
        }
        acc[slot * GROUP * HEAD + i] = sum;
        if (i % HEAD == 0) {
            stats[(slot * GROUP + g) * 2] = highest;
            stats[(slot * GROUP + g) * 2 + 1] = all;
        }
    }
}
