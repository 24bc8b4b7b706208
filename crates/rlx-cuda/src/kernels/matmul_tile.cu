// matmul      y[m, n] = epilogue(sum over k of x[m, k] * W[n, k]), for many rows of x and up to four weights
// shapes      x f32[M, K]    W FORMAT[N, K]    y f32[M, N]
// bytes       W for each 64 rows of x, x for each 64 columns; 4*M*N written
// launch      a block of 256 threads is a tile of 64 rows by 64 columns; while a step of k is summed up, the next one is
//             on its way from memory to registers
// numerics    f32, or what tensor cores make as near to it (tile_sums.cuh); sums of steps in order of k
template <class F>
__device__ __forceinline__ void tile(u32 block, const float* __restrict__ x, const Segment s) {
    __shared__ __align__(16) Tile xs, ws;
    float sums[16] = {}, rows[8], weights[8];
#ifdef GLU
    __shared__ __align__(16) Tile us;
    float ups[16] = {}, up_weights[8];
#endif
    u32 n0 = block * 64, m0 = blockIdx.y * 64;
    // Which row of x and of the weights this thread brings, and which elements of a step: a warp reads 8 rows, each as
    // far as a step goes. (A row to each lane was a quarter slower: more lines of memory for one read.)
    u32 row = threadIdx.x / 4, first = threadIdx.x % 4 * 8;
    for (u32 k0 = 0; k0 < K + STEP; k0 += STEP) {
        if (k0 > 0) {
            __syncthreads();
            put(xs, first, row, rows);
            put(ws, first, row, weights);
#ifdef GLU
            put(us, first, row, up_weights);
#endif
            __syncthreads();
        }
        if (k0 < K) {
            u32 k = k0 + first;
            fetch_row(x + size_t(m0 + row) * K, m0 + row < M, k, rows);
            fetch_weights<F>(s.w, s.row_bytes, n0 + row, s.n, k, weights);
#ifdef GLU
            fetch_weights<UP_FORMAT>(s.up, UP_ROW_BYTES, n0 + row, s.n, k, up_weights);
#endif
        }
        if (k0 > 0) {
            add_tile<F>(xs, ws, sums);
#ifdef GLU
            add_tile<UP_FORMAT>(xs, us, ups);
#endif
        }
    }
#pragma unroll
    for (u32 i = 0; i < 16; i++) {
        u32 m = m0 + row_of(i), n = n0 + column_of(i);
        if (m >= M || n >= s.n) continue;
#ifdef GLU
        float u = ups[i];
#else
        float u = 0.0f;
#endif
        s.y[size_t(m) * s.n + n] = EPILOGUE(sums[i], u, m, n);
    }
}

KERNEL(matmul_tile)(PARAMETERS) {
    wait_for_previous();
    if (IS_LATE(blockIdx.y * 64)) return;
    u32 block = blockIdx.x;
#define COMPUTE(F, ...) tile<F>(block, x, Segment{__VA_ARGS__})
    SEGMENTS
}
