// grouped_matmul  y[j, n] = epilogue(sum over k of x[k] * W[ids[j], n, k]) for one row of x, or their sum over j by
//             shares
// shapes      x f32[K] or f32[TOP_K, K]    W FORMAT[EXPERTS, N, K]    ids u32[TOP_K]    y f32[TOP_K, N] or f32[N]
// bytes       the rows of the experts that are named, once for each time
// launch      as matmul_stream. A stage is COLUMNS columns of an expert; or EACH columns of all experts that are summed,
//             where each group of lanes has one of them
// numerics    f32; a sum for each lane in order of k, then a tree; experts are added in order
#define WARPS (LANES / WARP)
#ifndef GLU
#define UP_FORMAT FORMAT
#endif

KERNEL_OF(grouped_stream, THREADS)(const float* __restrict__ x,
                                   const u8* __restrict__ w WEIGHT_PARAMETER BIAS_PARAMETER,
                                   const u32* __restrict__ ids SUM_PARAMETERS, float* y) {
    SHARED_BYTES(ring);
    __shared__ __align__(8) u64 barriers[SLOTS];
    __shared__ float parts[2][THREADS / WARP][EACH];
#ifdef GLU
    __shared__ float up_parts[2][THREADS / WARP][EACH];
#else
    float (*const up_parts[2])[EACH] = {};
#endif
    if (threadIdx.x == 0) make_barriers(barriers, SLOTS);
    wait_for_previous();
    // An expert's stages, or all.
    const u32 whole = (N - 1) / COLUMNS + 1, stages = (STAGES - 1 - blockIdx.x) / gridDim.x + 1;
    auto expert_of = [&](u32 j) { return min(ids[j], EXPERTS - 1u); };
    auto ask = [&](u32 stage) {
        u32 block = blockIdx.x + stage * gridDim.x, first = block % whole * COLUMNS, count = min(N - first, COLUMNS);
        u8* slot = ring + stage % SLOTS * SLOT_BYTES;
        u64* barrier = barriers + stage % SLOTS;
#ifdef SUMS
        begin_round(barrier, TOP_K * count * ROW_BYTES);
        for (u32 j = 0; j < TOP_K; j++) {
            const u8* from = w + (size_t(expert_of(j)) * N + first) * ROW_BYTES;
            copy_bulk(slot + j * COLUMNS * ROW_BYTES, from, count * ROW_BYTES, barrier);
        }
#else
        size_t row = size_t(expert_of(block / whole)) * N + first;
#ifdef GLU
        begin_round(barrier, count * (ROW_BYTES + UP_ROW_BYTES));
        copy_bulk(slot + COLUMNS * ROW_BYTES, up + row * UP_ROW_BYTES, count * UP_ROW_BYTES, barrier);
#else
        begin_round(barrier, count * ROW_BYTES);
#endif
        copy_bulk(slot, w + row * ROW_BYTES, count * ROW_BYTES, barrier);
#endif
    };
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < min(SLOTS, stages); stage++) ask(stage);
    }
    u32 lane = threadIdx.x % LANES;
#ifdef SUMS
    u32 now = threadIdx.x / LANES;
#else
    u32 now = blockIdx.x / whole;
#endif
    Pair<FORMAT, UP_FORMAT> of(x + size_t(X_ROW(0, now)) * K, nullptr, lane);
    // Behind it all see the barriers.
    __syncthreads();
    for (u32 stage = 0; stage < stages; stage++) {
        u32 block = blockIdx.x + stage * gridDim.x, j = block / whole, first = block % whole * COLUMNS;
        u32 turn = stage % 2;
#if defined(OWN_ROWS) && !defined(SUMS)
        if (j != now) of = Pair<FORMAT, UP_FORMAT>(x + size_t(j) * K, nullptr, lane);
        now = j;
#endif
        wait_for_round(barriers + stage % SLOTS, stage / SLOTS);
        put_stage(of, ring + stage % SLOTS * SLOT_BYTES, ROW_BYTES, parts[turn], up_parts[turn]);
        // Behind it all sums are there, and the slot is read no more.
        __syncthreads();
        if (threadIdx.x == 0 && stage + SLOTS < stages) ask(stage + SLOTS);
        u32 n = first + threadIdx.x;
        if (threadIdx.x >= COLUMNS || n >= N) continue;
#ifdef SUMS
        float sum = 0.0f;
        for (u32 i = 0; i < TOP_K; i++) {
            float v = all_of<WARPS>(parts[turn] + i * WARPS, threadIdx.x), u = 0.0f;
            sum = fmaf(shares[i], EPILOGUE(v, u, expert_of(i), n), sum);
        }
        y[n] = FINISH(sum, 0, n);
#else
        u32 from = threadIdx.x / EACH * WARPS, c = threadIdx.x % EACH;
        float v = all_of<WARPS>(parts[turn] + from, c), u = 0.0f;
#ifdef GLU
        u = all_of<WARPS>(up_parts[turn] + from, c);
#endif
        y[size_t(j) * N + n] = EPILOGUE(v, u, expert_of(j), n);
#endif
    }
}
