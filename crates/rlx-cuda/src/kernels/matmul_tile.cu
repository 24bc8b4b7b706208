// matmul      y[m, n] = epilogue(sum over k of x[m, k] * W[n, k]), for many rows of x and up to four weights
// shapes      x f32[M, K]    W FORMAT[N, K]    y f32[M, N]
// bytes       W for each 64 rows of x, x for each 64 columns; 4*M*N written
// launch      a block of 256 threads is a tile of 64 rows by 64 columns, each thread 4 by 4 of it
// numerics    f32; a sum in order of k
//             while a step of k is summed up, the next one is on its way from memory to registers
#define STEP 32
typedef float Tile[STEP][64];

// Where column c of row k of a tile stands. The 8 rows that a thread brings begin at 0, 8, 16 or 24: a warp's writes of
// one of them meet no bank of shared memory twice.
__device__ __forceinline__ u32 place(u32 k, u32 c) { return c ^ (k & 24u); }

// 8 elements of a row of x, and of weights; zeros where there are none.
__device__ __forceinline__ void fetch_rows(const float* __restrict__ x, u32 m, u32 k, float e[8]) {
#if WIDE_ROWS
    float4 zero = {0.0f, 0.0f, 0.0f, 0.0f}, low = zero, high = zero;
    if (m < M && k < K) {
        const float4* at = (const float4*)(x + size_t(m) * K + k);
        low = at[0];
        high = at[1];
    }
    e[0] = low.x, e[1] = low.y, e[2] = low.z, e[3] = low.w;
    e[4] = high.x, e[5] = high.y, e[6] = high.z, e[7] = high.w;
#else
#pragma unroll
    for (u32 j = 0; j < 8; j++) e[j] = m < M && k + j < K ? x[size_t(m) * K + k + j] : 0.0f;
#endif
}

template <class F>
__device__ __forceinline__ void fetch_weights(const u8* __restrict__ w, u32 row_bytes, u32 n, u32 end, u32 k, float e[8]) {
#pragma unroll
    for (u32 j = 0; j < 8; j++) e[j] = 0.0f;
    if (n >= end) return;
    const u8* row = w + size_t(n) * row_bytes;
    if (k + 8 <= K) {
        F::decode8(row, k, e);
    } else {
#if K % 8 != 0
        for (u32 j = 0; k + j < K; j++) e[j] = F::one(row, k + j);
#endif
    }
}

__device__ __forceinline__ void put(Tile& tile, u32 k, u32 column, const float e[8]) {
#pragma unroll
    for (u32 j = 0; j < 8; j++) tile[k + j][place(k, column)] = e[j];
}

__device__ __forceinline__ void add_tile(const Tile& xs, const Tile& ws, float sums[4][4]) {
    u32 r = threadIdx.x / 16 * 4, c = threadIdx.x % 16 * 4;
#pragma unroll 8
    for (u32 k = 0; k < STEP; k++) {
        float4 a = *(const float4*)&xs[k][place(k, r)], b = *(const float4*)&ws[k][place(k, c)];
        float u[4] = {a.x, a.y, a.z, a.w}, v[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
#pragma unroll
            for (u32 j = 0; j < 4; j++) sums[i][j] = fmaf(u[i], v[j], sums[i][j]);
        }
    }
}

template <class F>
__device__ __forceinline__ void tile(u32 block, const float* __restrict__ x, const Segment s) {
    __shared__ __align__(16) Tile xs, ws;
    float sums[4][4] = {}, rows[8], weights[8];
#ifdef GLU
    __shared__ __align__(16) Tile us;
    float ups[4][4] = {}, up_weights[8];
#endif
    u32 n0 = block * 64, m0 = blockIdx.y * 64;
    // Which row of x and of the weights this thread brings, and which elements of a step.
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
            fetch_rows(x, m0 + row, k, rows);
            fetch_weights<F>(s.w, s.row_bytes, n0 + row, s.n, k, weights);
#ifdef GLU
            fetch_weights<UP_FORMAT>(s.up, UP_ROW_BYTES, n0 + row, s.n, k, up_weights);
#endif
        }
        if (k0 > 0) {
            add_tile(xs, ws, sums);
#ifdef GLU
            add_tile(xs, us, ups);
#endif
        }
    }
    u32 r = m0 + threadIdx.x / 16 * 4, c = n0 + threadIdx.x % 16 * 4;
    for (u32 i = 0; i < 4; i++) {
        for (u32 j = 0; j < 4; j++) {
            u32 m = r + i, n = c + j;
            if (m >= M || n >= s.n) continue;
#ifdef GLU
            float u = ups[i][j];
#else
            float u = 0.0f;
#endif
            s.y[size_t(m) * s.n + n] = EPILOGUE(sums[i][j], u, m, n);
        }
    }
}

KERNEL(matmul_tile)(PARAMETERS) {
    wait_for_previous();
    if (IS_LATE(blockIdx.y * 64)) return;
    u32 block = blockIdx.x;
#define SEGMENT(F, BLOCKS, ...)                   \
    if (block < BLOCKS) {                         \
        tile<F>(block, x, Segment{__VA_ARGS__});  \
        return;                                   \
    }                                             \
    block -= BLOCKS;
    SEGMENTS
}
