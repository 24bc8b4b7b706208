// attention   y[i, h] = softmax(cap(scale q[i, h] k^T)) v over the positions that row i sees      arXiv:2205.14135
// shapes      q, y f32[ROWS, HEADS * HEAD]    caches f16[KV, CAPACITY, HEAD]    ctl u32[16]    sinks f32[HEADS]
// bytes       q and y once; the positions that are seen, for each 128 rows of a query head
// launch      a block is two groups of four warps, each of 64 rows of a head
// numerics    as attention_tile.cu, with weights to the base of 2
#define LOG2_E 1.4426950408889634f

__device__ __forceinline__ float power_of_two(float x) {
#ifdef RLX_EMULATOR
    return exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// Scores of positions from p on become weights. `is_whole`: all rows see all of them.
__device__ __forceinline__ void weigh(Rows& rows, const Seen& seen, u32 p, bool is_whole) {
#pragma unroll
    for (u32 r = 0; r < 2; r++) {
        auto score = [&](u32 i) -> float& { return rows.scores[i / 2][r * 2 + i % 2]; };
        if (!is_whole) {
#pragma unroll
            for (u32 i = 0; i < TILE / 4; i++) {
                u32 at = p + i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;
                if (at < seen.start[r] || at >= seen.end[r]) score(i) = MINUS_INFINITY;
            }
        }
        // What scores are multiplied by on their way to an exponent.
        float by = seen.factor[r] * LOG2_E;
#ifdef SOFTCAP
        by = LOG2_E;
#endif
        float largest = MINUS_INFINITY;
#pragma unroll
        for (u32 i = 0; i < TILE / 4; i++) {
#ifdef SOFTCAP
            if (score(i) != MINUS_INFINITY) score(i) = capped(score(i) * seen.factor[r]);
#endif
            largest = fmaxf(largest, score(i));
        }
        float higher = fmaxf(rows.most[r], most_of_four(largest) * by), added = 0.0f;
        rows.fade[r] = power_of_two(rows.most[r] - higher);
        rows.most[r] = higher;
#pragma unroll
        for (u32 i = 0; i < TILE / 4; i++) {
            score(i) = power_of_two(fmaf(score(i), by, -higher));
            added += score(i);
        }
        rows.total[r] = rows.total[r] * rows.fade[r] + added;
    }
}

KERNEL_OF(attention_groups, THREADS)(const float* __restrict__ q, const u8* __restrict__ keys,
                                     const u8* __restrict__ values, const u32* __restrict__ ctl SINKS_PARAMETER,
                                     float* __restrict__ y) {
    SHARED_BYTES(shared);
    wait_for_previous();
    u32 past = ctl[0], len = min(ctl[1], ROWS), head = blockIdx.y;
    // The last rows see the most: they begin first.
    u32 row0 = (gridDim.x - 1 - blockIdx.x) * (THREADS / 2);
    if (row0 >= len) return;
    u32 own = row0 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    // What any of the block's rows sees, and what all of them see.
    u32 from, to, all_from, all_to;
    seen_by(row0, past, len, from, all_to);
    seen_by(min(row0 + THREADS / 2, len) - 1, past, len, all_from, to);
    Rows rows;
    Seen seen = read_queries(own, head, past, len, q, rows.query);
#pragma unroll
    for (u32 r = 0; r < 2; r++) rows.most[r] = -3.0e38f, rows.total[r] = 0.0f;
    size_t first = size_t(head / (HEADS / KV)) * CAPACITY;
    auto place = [&](u32 p) { return (first + p % CAPACITY) * ROW_BYTES; };
    attend_group<F16>(
        rows, shared, from, to, [&](u32 p) { return keys + place(p); }, [&](u32 p) { return values + place(p); },
        [&](u32 p) { weigh(rows, seen, p, p >= all_from && p + TILE <= all_to); },
        [](float a, float b, u32(&parts)[PARTS]) { split(a, b, parts); });
#pragma unroll
    for (u32 r = 0; r < 2; r++) {
        u32 row = own + r * 8;
        float all = sum_of_four(rows.total[r]), share = 1.0f;
#ifdef SINKS
        float sink = sinks[head] * LOG2_E, highest = fmaxf(rows.most[r], sink);
        share = power_of_two(rows.most[r] - highest);
        all = all * share + power_of_two(sink - highest);
#endif
        share = all > 0.0f ? share / all : 0.0f;
        if (row >= len) continue;
        float* at = y + size_t(row) * HEADS * HEAD + head * HEAD + threadIdx.x % 4 * 2;
#pragma unroll
        for (u32 n = 0; n < HEAD / 8; n++) {
            *(float2*)(at + n * 8) = make_float2(rows.sums[n][r * 2] * share, rows.sums[n][r * 2 + 1] * share);
        }
    }
}
