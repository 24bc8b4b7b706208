// unmask      canvas[i] = ids[i] where the prediction is placed, by the canvas's plan (rlx-core, sample/canvas.rs)
// shapes      ids, confidence u32[BLOCK]    canvas u32[16 + BLOCK]
// bytes       16 for each position; without enough sure ones 8 more for each pair of masks
// launch      a block of 256 threads, a thread strides the positions
// numerics    integers
struct Counted {
    u32 masked, sure, fixed, edited, left;
};

KERNEL(unmask)(const u32* __restrict__ ids, const u32* __restrict__ confidence, u32* canvas) {
    wait_for_previous();
    __shared__ Counted n;
    u32 thread = threadIdx.x, finished = canvas[FINISHED];
    if (thread == 0u) n = {0u, 0u, 0u, 0u, 0u};
    // Thread 0 changes the plan at the end.
    __syncthreads();
    if (finished != 0u) return;
    u32* tokens = canvas + IDS;
    u32 mask = canvas[MASK], threshold = canvas[THRESHOLD], editing = canvas[EDITING], prompt = canvas[PROMPT];
    for (u32 i = thread; i < BLOCK; i += THREADS) {
        if (tokens[i] != mask) continue;
        atomicAdd(&n.masked, 1u);
        if (confidence[i] > threshold) atomicAdd(&n.sure, 1u);
    }
    __syncthreads();
    u32 steps = max(canvas[STEPS], 1u), spread = canvas[SPREAD];
    u32 planned = max(spread / steps + u32(canvas[PASS] < spread % steps), 1u);
    bool by_threshold = n.sure >= planned;
    // All decide by the canvas as it was: a bit for each of a thread's positions, of which it has 32 at most.
    u32 moves = 0;
    for (u32 k = 0; k < 32 && k * THREADS + thread < BLOCK; k++) {
        u32 i = k * THREADS + thread, own = confidence[i], token = tokens[i];
        bool does = false;
        if (token != mask) {
            does = editing != NO_EDITING && i >= prompt && ids[i] != token && own > editing;
            if (does) atomicAdd(&n.edited, 1u);
        } else {
            does = own > threshold;
            if (!by_threshold) {
                // Likelier masked positions, and as likely ones before it.
                u32 ahead = 0;
                for (u32 j = 0; j < BLOCK; j++) {
                    u32 other = confidence[j];
                    ahead += tokens[j] == mask && (other > own || (other == own && j < i));
                }
                does = ahead < planned;
            }
            if (does) atomicAdd(&n.fixed, 1u);
        }
        if (does) moves |= 1u << k;
        if ((does ? ids[i] : token) == mask) atomicAdd(&n.left, 1u);
    }
    __syncthreads();
    for (u32 k = 0; k < 32; k++) {
        u32 i = k * THREADS + thread;
        if (moves >> k & 1u) tokens[i] = ids[i];
    }
    if (thread != 0u) return;
    u32 after = canvas[AFTER] + u32(n.masked == 0u);
    bool ends = editing == NO_EDITING || after >= canvas[POST] || (n.masked == 0u && n.edited == 0u);
    canvas[PASS] += 1u;
    canvas[AFTER] = after;
    canvas[FIXED] = n.fixed;
    canvas[EDITED] = n.edited;
    canvas[FINISHED] = u32(ends && n.left == 0u);
}
