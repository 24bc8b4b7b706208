// attention_join  y[h] = sum over j of exp(m_j - M) acc_j / sum over j of exp(m_j - M) sum_j, M the largest m_j
// shapes          acc f32[KV * SPLITS, GROUP * HEAD]    stats f32[KV * SPLITS, GROUP * 2]    sinks f32[KV * GROUP]
//                 y f32[1, KV * GROUP * HEAD]
// bytes           acc and stats once, y once
// launch          a block of 128 threads is a query head: a warp weighs the splits, then a thread has elements
// numerics        f32; weights are added as a tree, splits in order; a sink is a split of its own
KERNEL(attention_join)(const float* __restrict__ acc, const float* __restrict__ stats SINKS_PARAMETER,
                       float* __restrict__ y) {
    __shared__ float share[SPLITS];
    __shared__ float all_of;
    wait_for_previous();
    u32 head = blockIdx.x, kv = head / GROUP, g = head % GROUP, thread = threadIdx.x;
    const float* of = stats + (size_t(kv) * SPLITS * GROUP + g) * 2;
    if (thread < WARP) {
        float most = MINUS_INFINITY, all = 0.0f;
        for (u32 j = thread; j < SPLITS; j += WARP) most = fmaxf(most, of[size_t(j) * GROUP * 2]);
        most = warp_max(most);
#ifdef SINKS
        most = fmaxf(most, sinks[head]);
#endif
        for (u32 j = thread; j < SPLITS; j += WARP) {
            float m = of[size_t(j) * GROUP * 2];
            float weight = m == MINUS_INFINITY ? 0.0f : expf(m - most);
            all += weight * of[size_t(j) * GROUP * 2 + 1];
            share[j] = weight;
        }
        all = warp_sum(all);
#ifdef SINKS
        all += expf(sinks[head] - most);
#endif
        if (thread == 0) all_of = all;
    }
    __syncthreads();
    for (u32 e = thread; e < HEAD; e += 128) {
        float sum = 0.0f;
#pragma unroll 8
        for (u32 j = 0; j < SPLITS; j++) {
            // A split without positions may have left NaN. It is loaded all the same, so that no load waits for a branch.
            float part = acc[(size_t(kv) * SPLITS + j) * GROUP * HEAD + g * HEAD + e];
            sum += share[j] > 0.0f ? share[j] * part : 0.0f;
        }
        y[size_t(head) * HEAD + e] = all_of > 0.0f ? sum / all_of : 0.0f;
    }
}
