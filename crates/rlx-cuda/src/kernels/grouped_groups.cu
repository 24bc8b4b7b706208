// grouped_matmul  y[p, n] = epilogue(sum over k of x[row of p, k] * W[expert of p, n, k]) for pairs p of a row and an
//             expert
// shapes      x f16[ROWS, 2, K], high and low halves of each row in the order of halves.cu's ORDERED, divided by its
//             scale f32[ROWS]    W FORMAT[EXPERTS, N, K], N a multiple of COLUMNS, K of 64    order, tiles as group_rows
//             makes them    y f32[M TOP_K, N]
// bytes       an expert's W for each 64 of its pairs, a pair's row for each COLUMNS columns; 4*N written for a pair
// launch      a block of four warps is a tile of 64 pairs of an expert by COLUMNS columns: 32 of a gate and of what it
//             multiplies, or 64. Its weights come to shared memory at once, x by 64 of k
// numerics    as grouped_halves.cu; sums of 64 of k are added up in f32
#define X_PANEL (64 * PANEL_ROW)
// A warp's sixteen rows of a product: eight columns of the gate and the same eight of the bank that it multiplies, or
// sixteen columns.
#ifdef GLU
#define OF_A_WARP 8
#else
#define OF_A_WARP 16
#define UP_FORMAT FORMAT
#define UP_ROW_BYTES 0u
#endif

// COLUMNS rows of a matrix, `stride` bytes apart. All threads ask, each for its own.
template <u32 ROW>
__device__ __forceinline__ void bring_rows(u8* to, u32 stride, const u8* from, u64* arrived) {
    if (stride == ROW) {
        if (threadIdx.x == 0) copy_bulk(to, from, COLUMNS * ROW, arrived);
    } else if (threadIdx.x < COLUMNS) {
        copy_bulk(to + threadIdx.x * stride, from + threadIdx.x * size_t(ROW), ROW, arrived);
    }
}

// What a thread has of 64 of k of its two rows, as products of 16 take it: a run of eight elements in each 32.
struct Operands {
    u32 of[4][4];

    template <class F>
    __device__ __forceinline__ void decode(const u8* row, u32 k, u32 which) {
#pragma unroll
        for (u32 c = 0; c < 2; c++) {
            float e[8];
            u32 i = k + c * 32 + threadIdx.x % 4 * 8;
            if constexpr (IN_PARTS<F>) {
                float scale, minimum;
                F::parts8(row, i, e, scale, minimum);
#pragma unroll
                for (u32 j = 0; j < 8; j++) e[j] = fmaf(scale, e[j], minimum);
            } else {
                F::decode8(row, i, e);
            }
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                of[c * 2 + j / 2][j % 2 * 2 + which] = halves_of(e[2 * j], e[2 * j + 1]);
            }
        }
    }
};

KERNEL_OF(grouped_groups, 128)(const u16* __restrict__ x, const float* __restrict__ scales,
                               const u8* __restrict__ w WEIGHT_PARAMETER BIAS_PARAMETER, const u32* __restrict__ order,
                               const u32* __restrict__ tiles, float* y) {
    SHARED_BYTES(shared);
    __shared__ u64 arrived;
    if (threadIdx.x == 0) make_barriers(&arrived, 1);
    wait_for_previous();
    u32 expert = tiles[3 * blockIdx.y], pairs = tiles[3 * blockIdx.y + 1], count = tiles[3 * blockIdx.y + 2];
    if (count == 0) return;
    u8 *weights = shared + 4 * X_PANEL, *ups = weights + COLUMNS * STRIDE;
    u32 n0 = blockIdx.x * COLUMNS;
    size_t first = size_t(expert) * N + n0;
    __syncthreads();
    if (threadIdx.x == 0) begin_round(&arrived, COLUMNS * (ROW_BYTES + UP_ROW_BYTES));
    bring_rows<ROW_BYTES>(weights, STRIDE, w + first * ROW_BYTES, &arrived);
#ifdef GLU
    bring_rows<UP_ROW_BYTES>(ups, UP_STRIDE, up + first * UP_ROW_BYTES, &arrived);
#endif
    // A thread brings an eighth of a panel's row, of four rows and of both halves.
    const u16* from[4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        u32 own = order[pairs + min(threadIdx.x / 8 + i * 16, count - 1)];
        from[i] = x + size_t(X_ROW(own / TOP_K, own)) * 2 * K + threadIdx.x % 8 * 8;
    }
    auto bring = [&](u32 k) {
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            u32 row = threadIdx.x / 8 + i % 4 * 16;
            u8* panel = shared + (k / 64 % 2 * 2 + i / 4) * X_PANEL;
            copy_16(part_of_panel(panel, row, threadIdx.x % 8), (const u8*)(from[i % 4] + i / 4 * K + k), row < count);
        }
    };
    bring(0);
    commit_copies();
    u32 own = threadIdx.x / 32 * OF_A_WARP + threadIdx.x % 32 / 4;
    const u8* rows[2] = {weights + own * STRIDE, weights + (own + 8) * STRIDE};
#ifdef GLU
    rows[1] = ups + own * UP_STRIDE;
#endif
    auto decode = [&](Operands& to, u32 k) {
        to.decode<FORMAT>(rows[0], k, 0);
        to.decode<UP_FORMAT>(rows[1], k, 1);
    };
    float sums[8][4] = {}, step[8][4];
    // A step of k, while the next one's weights are decoded.
    auto multiply_step = [&](const Operands& now, Operands& next, u32 k) {
        finish_copies<0>();
        __syncthreads();
        if (k + 64 < K) bring(k + 64);
        commit_copies();
        begin_products();
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
#pragma unroll
            for (u32 p = 2; p-- > 0;) {
                Columns b = columns_of(shared + (k / 64 % 2 * 2 + p) * X_PANEL, 0, j * 16);
                multiply_group<F16, false>(step, now.of[j], b, j > 0 || p == 0);
            }
        }
        commit_products();
        if (k + 64 < K) decode(next, k + 64);
        finish_products<0>();
        settle(step);
#pragma unroll
        for (u32 i = 0; i < 32; i++) sums[i / 4][i % 4] += step[i / 4][i % 4];
    };
    // All rows have been asked for.
    __syncthreads();
    wait_for_round(&arrived, 0);
    Operands even, odd;
    decode(even, 0);
    for (u32 k = 0; k < K; k += 128) {
        multiply_step(even, odd, k);
        if (k + 64 < K) multiply_step(odd, even, k + 64);
    }
#pragma unroll
    for (u32 i = 0; i < 16; i++) {
        u32 m = i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;
        if (m >= count) continue;
        u32 pair = order[pairs + m];
        float scale = scales[X_ROW(pair / TOP_K, pair)];
        float v = sums[i / 2][i % 2] * scale, u = sums[i / 2][2 + i % 2] * scale;
        float* at = y + size_t(pair) * N;
        u32 n = n0 + own;
#ifdef GLU
        at[n] = EPILOGUE(v, u, expert, n);
#else
        at[n] = EPILOGUE(v, 0.0f, expert, n);
        n += 8;
        at[n] = EPILOGUE(u, 0.0f, expert, n);
#endif
    }
}
