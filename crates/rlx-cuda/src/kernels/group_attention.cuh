// Attention of 64 rows by products of four warps: positions come by TILE to shared memory, keys a tile ahead of values,
// and while tensor cores multiply those that are there, weights are made of the scores before (arXiv:2205.14135,
// arXiv:2407.08608). A thread has two rows, 8 apart.
#define KEY_BYTES (TILE * HEAD * 2)
#define VALUE_BYTES (TILE * WIDTH * 2)
#define PANEL_BYTES (TILE * PANEL_ROW)

// Scores and then weights of a tile, sums of values, the largest score and the weights' sum of the positions so far,
// and what sums are multiplied by where a larger score has come.
struct Rows {
    u32 query[PARTS][HEAD / 16][4], weights[PARTS][TILE / 16][4];
    float scores[TILE / 8][4], sums[WIDTH / 8][4], most[2], total[2], fade[2];
};

// A tile's rows of Length halves, as panels; row j is at `row_at(j)`, and zeros from `end` on.
template <u32 Length, class F>
__device__ __forceinline__ void bring(u8* to, u32 j, u32 end, const F& row_at) {
    if (j >= end) return;
    const u32 parts = Length / 8;
#pragma unroll
    for (u32 i = threadIdx.x; i < TILE * parts; i += THREADS) {
        u32 row = i / parts, part = i % parts;
        bool is_there = j + row < end;
        const u8* at = row_at(is_there ? j + row : j);
        copy_16(part_of_panel(to + part / 8 * PANEL_BYTES, row, part % 8), at + part * 16, is_there);
    }
}

template <class T>
__device__ __forceinline__ void multiply_keys(Rows& rows, const u8* keys) {
#pragma unroll
    for (u32 n = 0; n < TILE / 64; n++) {
#pragma unroll
        for (u32 j = 0; j < HEAD / 16; j++) {
            Columns b = columns_of(keys + j / 4 * PANEL_BYTES, n * 64, j % 4 * 16);
#pragma unroll
            for (u32 p = PARTS; p-- > 0;) {
                multiply_group<T, false>(rows.scores + n * 8, rows.query[p][j], b, j > 0 || p + 1 < PARTS);
            }
        }
    }
    commit_products();
}

template <class T>
__device__ __forceinline__ void multiply_values(Rows& rows, const u8* values) {
#pragma unroll
    for (u32 k = 0; k < TILE / 16; k++) {
#pragma unroll
        for (u32 n = 0; n < WIDTH / 64; n++) {
            Columns b = columns_of(values + n * PANEL_BYTES, k * 16, 0);
#pragma unroll
            for (u32 p = PARTS; p-- > 0;) multiply_group<T, true>(rows.sums + n * 8, rows.weights[p][k], b, true);
        }
    }
    commit_products();
}

// Weights as the next product reads them: the one before it has to be finished.
template <class F>
__device__ __forceinline__ void round_weights(Rows& rows, const F& split) {
#pragma unroll
    for (u32 i = 0; i < TILE / 4; i++) {
        const float* two = &rows.scores[i / 2][i % 2 * 2];
        u32 parts[PARTS];
        split(two[0], two[1], parts);
#pragma unroll
        for (u32 p = 0; p < PARTS; p++) rows.weights[p][i / 4][i % 4] = parts[p];
    }
}

// Positions from `from` to `to`, one at least. `key_at` and `value_at` say where one begins, `weigh` makes weights
// of a tile's scores, and `split` makes operands of two weights. Shared memory has two tiles of each.
template <class T, class Keys, class Values, class Weigh, class Split>
__device__ __forceinline__ void attend_group(Rows& rows, u8* shared, u32 from, u32 to, const Keys& key_at,
                                             const Values& value_at, const Weigh& weigh, const Split& split) {
    u8 *ks = shared, *vs = shared + 2 * KEY_BYTES;
    bring<HEAD>(ks, from, to, key_at);
    commit_copies();
    bring<WIDTH>(vs, from, to, value_at);
    bring<HEAD>(ks + KEY_BYTES, from + TILE, to, key_at);
    commit_copies();
#pragma unroll
    for (u32 i = 0; i < WIDTH / 2; i++) rows.sums[i / 4][i % 4] = 0.0f;
    finish_copies<1>();
    __syncthreads();
    begin_products();
    multiply_keys<T>(rows, ks);
    finish_products<0>();
    settle(rows.scores);
    weigh(from);
    round_weights(rows, split);
    u32 turn = 0;
    for (u32 p = from + TILE; p < to; p += TILE, turn ^= 1) {
        finish_copies<0>();
        __syncthreads();
        // Nobody reads the tiles that these replace any more.
        bring<HEAD>(ks + turn * KEY_BYTES, p + TILE, to, key_at);
        bring<WIDTH>(vs + (turn ^ 1) * VALUE_BYTES, p, to, value_at);
        commit_copies();
        begin_products();
        multiply_keys<T>(rows, ks + (turn ^ 1) * KEY_BYTES);
        multiply_values<T>(rows, vs + turn * VALUE_BYTES);
        finish_products<1>();
        settle(rows.scores);
        weigh(p);
        finish_products<0>();
        settle(rows.sums);
#pragma unroll
        for (u32 i = 0; i < WIDTH / 2; i++) rows.sums[i / 4][i % 4] *= rows.fade[i % 4 / 2];
        round_weights(rows, split);
    }
    finish_copies<0>();
    __syncthreads();
    begin_products();
    multiply_values<T>(rows, vs + turn * VALUE_BYTES);
    finish_products<0>();
    settle(rows.sums);
}
