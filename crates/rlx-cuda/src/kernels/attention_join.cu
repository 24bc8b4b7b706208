// attention_join  y[h] = sum over j of exp(m_j - M) acc_j / sum over j of exp(m_j - M) sum_j, M the largest m_j
// shapes          acc f32[KV * SPLITS, GROUP * HEAD]    stats f32[KV * SPLITS, GROUP * 2]    sinks f32[KV * GROUP]
//                 y f32[1, KV * GROUP * HEAD]
// bytes           acc and stats once, y once
// launch          a block of 128 threads is a query head; a thread has elements of it
// numerics        f32; splits in order; a sink is a split of its own
KERNEL(attention_join)(const float* __restrict__ acc, const float* __restrict__ stats SINKS_PARAMETER,
                       float* __restrict__ y) {
    __shared__ float share[SPLITS];
    __shared__ float all_of;
    u32 head = blockIdx.x, kv = head / GROUP, g = head % GROUP, thread = threadIdx.x;
    const float* of = stats + (size_t(kv) * SPLITS * GROUP + g) * 2;
    if (thread < 32) {
        float most = MINUS_INFINITY, all = 0.0f;
        for (u32 j = 0; j < SPLITS; j++) most = fmaxf(most, of[size_t(j) * GROUP * 2]);
#ifdef SINKS
        most = fmaxf(most, sinks[head]);
        all = expf(sinks[head] - most);
#endif
        for (u32 j = 0; j < SPLITS; j++) {
            float m = of[size_t(j) * GROUP * 2];
            float weight = m == MINUS_INFINITY ? 0.0f : expf(m - most);
            all += weight * of[size_t(j) * GROUP * 2 + 1];
            if (j % 32 == thread) share[j] = weight;
        }
        if (thread == 0) all_of = all;
    }
    __syncthreads();
    for (u32 e = thread; e < HEAD; e += 128) {
        float sum = 0.0f;
        for (u32 j = 0; j < SPLITS; j++) {
            // What a split without positions left is no number to be multiplied.
            if (share[j] > 0.0f) sum += share[j] * acc[(size_t(kv) * SPLITS + j) * GROUP * HEAD + g * HEAD + e];
        }
        y[size_t(head) * HEAD + e] = all_of > 0.0f ? sum / all_of : 0.0f;
    }
}
