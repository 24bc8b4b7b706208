// grouped_matmul  y[p, n] = epilogue(sum over k of x[row of p, k] * W[expert of p, n, k]) for pairs p of a row and an
//             expert
// shapes      x f16[ROWS, 2, K], high and low halves of each row, divided by its scale f32[ROWS]
//             W FORMAT[EXPERTS, N, K]    order, tiles as group_rows makes them    y f32[M TOP_K, N]
// bytes       an expert's W for each 64 of its pairs, a pair's row for each 64 columns; 4*N written for a pair
// launch      a block of 256 threads is a tile of 64 pairs of an expert by 64 columns, a warp 16 by 32 of them; while a
//             step of k is summed up, the next one is on its way from memory
// numerics    weights are rounded to f16, x has 22 bits; products on tensor cores, sums of steps in f32 in order of k
#define STEP 32
typedef Rows16<64, STEP> Tile;

// Eight weights of a row as halves.
template <class F>
struct Eight {
    static __device__ __forceinline__ uint4 of(const u8* row, u32 k) {
        float e[8];
        F::decode8(row, k, e);
        u32 words[4];
#pragma unroll
        for (u32 j = 0; j < 4; j++) words[j] = halves_of(e[2 * j], e[2 * j + 1]);
        return make_uint4(words[0], words[1], words[2], words[3]);
    }
};
template <>
struct Eight<F16> {
    static __device__ __forceinline__ uint4 of(const u8* row, u32 k) { return *(const uint4*)(row + 2 * k); }
};

// A thread's 16 sums of the tile, and where they are.
#ifdef HAS_HALVES
// A warp has 16 pairs by 32 columns.
__device__ __forceinline__ u32 first_row() { return threadIdx.x / 32 % 4 * 16; }
__device__ __forceinline__ u32 row_of(u32 i) { return first_row() + threadIdx.x % 32 / 4 + i % 4 / 2 * 8; }
__device__ __forceinline__ u32 column_of(u32 i) {
    return threadIdx.x / 128 * 32 + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
}
struct Sums {
    float of[16];
    __device__ __forceinline__ void add(const Tile* xs, const Tile& ws) {
        float step[4][4] = {};
        u32 row = first_row(), column = threadIdx.x / 128 * 32;
#pragma unroll
        for (u32 k = 0; k < STEP; k += 16) {
            u32 high[4], low[4];
            of_rows(high, xs[0], row, k);
            of_rows(low, xs[1], row, k);
#pragma unroll
            for (u32 n = 0; n < 4; n += 2) {
                u32 b[4];
                along_columns(b, ws, column + n * 8, k);
                multiply<F16>(step[n], low, b);
                multiply<F16>(step[n + 1], low, b + 2);
                multiply<F16>(step[n], high, b);
                multiply<F16>(step[n + 1], high, b + 2);
            }
        }
#pragma unroll
        for (u32 i = 0; i < 16; i++) of[i] += step[i / 4][i % 4];
    }
};
#elif defined(HAS_MATRIX)
// AMD's products of matrices (hip_matrix.cuh).
__device__ __forceinline__ u32 first_row() { return matrix::first_row_of_tile(); }
__device__ __forceinline__ u32 row_of(u32 i) { return matrix::row_of_tile(i); }
__device__ __forceinline__ u32 column_of(u32 i) { return matrix::column_of_tile(i); }
struct Sums {
    float of[16];
    __device__ __forceinline__ void add(const Tile* xs, const Tile& ws) {
        matrix::Sums step[matrix::GROUPS_OF_TILE][2] = {};
        u32 own = matrix::lane() % 16, column = matrix::first_column_of_tile() + own;
#pragma unroll
        for (u32 k = 0; k < STEP; k += 16) {
            u32 first = k + matrix::first_element();
            matrix::OfHalves weights[2];
#pragma unroll
            for (u32 c = 0; c < 2; c++) matrix::load(weights[c], &ws[column + c * 16][first]);
#pragma unroll
            for (u32 g = 0; g < matrix::GROUPS_OF_TILE; g++) {
                matrix::OfHalves high, low;
                matrix::load(high, &xs[0][first_row() + g * 16 + own][first]);
                matrix::load(low, &xs[1][first_row() + g * 16 + own][first]);
#pragma unroll
                for (u32 c = 0; c < 2; c++) {
                    matrix::multiply(step[g][c], low, weights[c]);
                    matrix::multiply(step[g][c], high, weights[c]);
                }
            }
        }
        matrix::add_step(of, step);
    }
};
#else
// Four pairs by four columns.
__device__ __forceinline__ u32 first_row() { return threadIdx.x / 16 * 4; }
__device__ __forceinline__ u32 row_of(u32 i) { return first_row() + i / 4; }
__device__ __forceinline__ u32 column_of(u32 i) { return threadIdx.x % 16 * 4 + i % 4; }
struct Sums {
    float of[16];
    __device__ __forceinline__ void add(const Tile* xs, const Tile& ws) {
        for (u32 k = 0; k < STEP; k++) {
            float a[4], b[4];
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                u32 row = first_row() + i;
                a[i] = float_of_half(xs[0][row][k]) + float_of_half(xs[1][row][k]);
                b[i] = float_of_half(ws[column_of(i)][k]);
            }
#pragma unroll
            for (u32 i = 0; i < 16; i++) of[i] = fmaf(a[i / 4], b[i % 4], of[i]);
        }
    }
};
#endif

KERNEL_OF(grouped_halves, 256)(const u16* __restrict__ x, const float* __restrict__ scales,
                               const u8* __restrict__ w WEIGHT_PARAMETER BIAS_PARAMETER, const u32* __restrict__ order,
                               const u32* __restrict__ tiles, float* y) {
    wait_for_previous();
    u32 expert = tiles[3 * blockIdx.y], pairs = tiles[3 * blockIdx.y + 1], count = tiles[3 * blockIdx.y + 2];
    if (count == 0) return;
    // Steps take turns with them.
    __shared__ __align__(16) Tile xs[2][2], ws[2];
    Sums sums = {};
#ifdef GLU
    __shared__ __align__(16) Tile us[2];
    Sums ups = {};
#endif
    u32 n0 = blockIdx.x * 64;
    // Which row of x and of the weights this thread brings, and which elements of a step.
    u32 row = threadIdx.x / 4, first = threadIdx.x % 4 * 8;
    u32 own = order[pairs + min(row, count - 1)], n = min(n0 + row, N - 1);
    const u16* from = x + size_t(X_ROW(own / TOP_K, own)) * 2 * K;
    const u8* weights = w + (size_t(expert) * N + n) * ROW_BYTES;
#ifdef GLU
    const u8* up_weights = up + (size_t(expert) * N + n) * UP_ROW_BYTES;
#endif
    uint4 high, low, of_w, of_up;
    auto fetch = [&](u32 k0) {
        u32 k = k0 + first;
        high = low = of_w = of_up = make_uint4(0, 0, 0, 0);
        if (k >= K) return;
        if (row < count) {
            high = *(const uint4*)(from + k);
            low = *(const uint4*)(from + K + k);
        }
        of_w = Eight<FORMAT>::of(weights, k);
#ifdef GLU
        of_up = Eight<UP_FORMAT>::of(up_weights, k);
#endif
    };
    fetch(0);
    for (u32 k0 = 0; k0 < K; k0 += STEP) {
        u32 turn = k0 / STEP % 2;
        *(uint4*)&xs[turn][0][row][first] = high;
        *(uint4*)&xs[turn][1][row][first] = low;
        *(uint4*)&ws[turn][row][first] = of_w;
#ifdef GLU
        *(uint4*)&us[turn][row][first] = of_up;
#endif
        __syncthreads();
        if (k0 + STEP < K) fetch(k0 + STEP);
        // Where a tile has few pairs, some warps have none.
        if (first_row() < count) {
            sums.add(xs[turn], ws[turn]);
#ifdef GLU
            ups.add(xs[turn], us[turn]);
#endif
        }
    }
#pragma unroll
    for (u32 i = 0; i < 16; i++) {
        u32 m = row_of(i), n = n0 + column_of(i);
        if (m >= count || n >= N) continue;
        u32 pair = order[pairs + m];
        float scale = scales[X_ROW(pair / TOP_K, pair)], v = sums.of[i] * scale, u = 0.0f;
#ifdef GLU
        u = ups.of[i] * scale;
#endif
        y[size_t(pair) * N + n] = EPILOGUE(v, u, expert, n);
    }
}
