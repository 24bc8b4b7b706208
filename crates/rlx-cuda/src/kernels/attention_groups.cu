// attention   y[i, h] = softmax(cap(scale q[i, h] k^T)) v over the positions that row i sees      arXiv:2205.14135,
//             whose softmax runs beside products as in arXiv:2407.08608
// shapes      q, y f32[ROWS, HEADS * HEAD]    caches f16[KV, CAPACITY, HEAD]    ctl u32[16]    sinks f32[HEADS]
// bytes       q and y once; the positions that are seen, for each 128 rows of a query head
// launch      a block is two groups of four warps, each of 64 rows of a head; positions come by TILE to shared memory,
//             keys a tile ahead of values, while tensor cores multiply those that are there
// numerics    as attention_tile.cu, with weights to the base of 2
#define LOG2_E 1.4426950408889634f
#define TILE_BYTES (TILE * HEAD * 2)
#define PANEL_BYTES (TILE * PANEL_ROW)
#define PANELS (HEAD / 64)

__device__ __forceinline__ float power_of_two(float x) {
#ifdef RLX_EMULATOR
    return exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// Positions from p on, as panels; zeros from `end` on.
__device__ __forceinline__ void bring(u8* to, const u8* __restrict__ cache, size_t first, u32 p, u32 end) {
    if (p >= end) return;
    const u32 parts = HEAD / 8;
#pragma unroll
    for (u32 i = threadIdx.x; i < TILE * parts; i += THREADS) {
        u32 position = i / parts, part = i % parts;
        bool is_there = p + position < end;
        size_t at = is_there ? (first + (p + position) % CAPACITY) * ROW_BYTES + part * 16 : 0;
        copy_16(part_of_panel(to + part / 8 * PANEL_BYTES, position, part % 8), cache + at, is_there);
    }
}

// What a thread has of its rows: scores and then weights of a tile, sums of values, the largest score and the weights'
// sum of the positions so far, and what that is multiplied by where a larger score has come.
struct Rows {
    u32 query[PARTS][HEAD / 16][4], weights[PARTS][TILE / 16][4];
    float scores[TILE / 64][32], sums[PANELS][32], most[2], total[2], fade[2];
};

__device__ __forceinline__ void multiply_keys(Rows& rows, const u8* keys) {
#pragma unroll
    for (u32 n = 0; n < TILE / 64; n++) {
#pragma unroll
        for (u32 j = 0; j < HEAD / 16; j++) {
            Columns b = columns_of(keys + j / 4 * PANEL_BYTES, n * 64, j % 4 * 16);
#pragma unroll
            for (u32 p = PARTS; p-- > 0;) {
                multiply_group<F16, false>(rows.scores[n], rows.query[p][j], b, j > 0 || p + 1 < PARTS);
            }
        }
    }
    commit_products();
}

__device__ __forceinline__ void multiply_values(Rows& rows, const u8* values) {
#pragma unroll
    for (u32 k = 0; k < TILE / 16; k++) {
#pragma unroll
        for (u32 n = 0; n < PANELS; n++) {
            Columns b = columns_of(values + n * PANEL_BYTES, k * 16, 0);
#pragma unroll
            for (u32 p = PARTS; p-- > 0;) multiply_group<F16, true>(rows.sums[n], rows.weights[p][k], b, true);
        }
    }
    commit_products();
}

// Scores of positions from p on become weights. `is_whole`: all rows see all of them.
__device__ __forceinline__ void weigh(Rows& rows, const Seen& seen, u32 p, bool is_whole) {
#pragma unroll
    for (u32 r = 0; r < 2; r++) {
        auto score = [&](u32 i) -> float& { return rows.scores[i / 32][i % 32 / 2 * 4 + r * 2 + i % 2]; };
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

// Weights as halves, which the next product reads: the one before it has to be finished.
__device__ __forceinline__ void round_weights(Rows& rows) {
#pragma unroll
    for (u32 i = 0; i < TILE / 4; i++) {
        const float* two = &rows.scores[i / 16][i % 16 * 2];
        u32 parts[PARTS];
        split(two[0], two[1], parts);
#pragma unroll
        for (u32 p = 0; p < PARTS; p++) rows.weights[p][i / 4][i % 4] = parts[p];
    }
}

KERNEL_OF(attention_groups, THREADS)(const float* __restrict__ q, const u8* __restrict__ keys,
                                     const u8* __restrict__ values, const u32* __restrict__ ctl SINKS_PARAMETER,
                                     float* __restrict__ y) {
    // Two tiles of keys, and two of values.
    SHARED_BYTES(shared);
    u8 *ks = shared, *vs = shared + 2 * TILE_BYTES;
    wait_for_previous();
    u32 past = ctl[0], len = min(ctl[1], ROWS), head = blockIdx.y;
    // The last rows see the most: they begin first.
    u32 row0 = (gridDim.x - 1 - blockIdx.x) * (THREADS / 2);
    if (row0 >= len) return;
    u32 own = row0 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    size_t first = size_t(head / (HEADS / KV)) * CAPACITY;
    // What any of the block's rows sees, and what all of them see.
    u32 from, to, all_from, all_to;
    seen_by(row0, past, len, from, all_to);
    seen_by(min(row0 + THREADS / 2, len) - 1, past, len, all_from, to);
    bring(ks, keys, first, from, to);
    commit_copies();
    bring(vs, values, first, from, to);
    bring(ks + TILE_BYTES, keys, first, from + TILE, to);
    commit_copies();
    Rows rows;
    Seen seen = read_queries(own, head, past, len, q, rows.query);
#pragma unroll
    for (u32 r = 0; r < 2; r++) rows.most[r] = -3.0e38f, rows.total[r] = 0.0f;
#pragma unroll
    for (u32 i = 0; i < HEAD / 2; i++) rows.sums[i / 32][i % 32] = 0.0f;
    finish_copies<1>();
    __syncthreads();
    begin_products();
    multiply_keys(rows, ks);
    finish_products<0>();
    settle(rows.scores);
    weigh(rows, seen, from, from >= all_from && from + TILE <= all_to);
    round_weights(rows);
    u32 turn = 0;
    for (u32 p = from + TILE; p < to; p += TILE, turn ^= 1) {
        finish_copies<0>();
        __syncthreads();
        // Nobody reads the tiles that these replace any more.
        bring(ks + turn * TILE_BYTES, keys, first, p + TILE, to);
        bring(vs + (turn ^ 1) * TILE_BYTES, values, first, p, to);
        commit_copies();
        begin_products();
        multiply_keys(rows, ks + (turn ^ 1) * TILE_BYTES);
        multiply_values(rows, vs + turn * TILE_BYTES);
        finish_products<1>();
        settle(rows.scores);
        weigh(rows, seen, p, p >= all_from && p + TILE <= all_to);
        finish_products<0>();
        settle(rows.sums);
#pragma unroll
        for (u32 i = 0; i < HEAD / 2; i++) rows.sums[i / 32][i % 32] *= rows.fade[i % 4 / 2];
        round_weights(rows);
    }
    finish_copies<0>();
    __syncthreads();
    begin_products();
    multiply_values(rows, vs + turn * TILE_BYTES);
    finish_products<0>();
    settle(rows.sums);
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
            const float* two = &rows.sums[n / 8][n % 8 * 4 + r * 2];
            *(float2*)(at + n * 8) = make_float2(two[0] * share, two[1] * share);
        }
    }
}
