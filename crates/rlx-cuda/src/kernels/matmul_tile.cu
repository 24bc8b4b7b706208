// matmul      y[m, n] = epilogue(sum over k of x[m, k] * W[n, k]), for many rows of x and up to four weights
// shapes      x f32[M, K]    W FORMAT[N, K]    y f32[M, N]
// bytes       W for each 64 rows of x, x for each 64 columns; 4*M*N written
// launch      a block of 256 threads is a tile of 64 rows by 64 columns, each thread 4 by 4 of it
// numerics    f32; a sum in order of k
#define STEP 32
template <class F>
__device__ __forceinline__ void fetch_weights(const u8* __restrict__ w, u32 row_bytes, u32 n0, u32 end, u32 k0,
                                              float (*tile)[68]) {
    u32 n = threadIdx.x / 4, k = threadIdx.x % 4 * 8;
    float e[8] = {};
    if (n0 + n < end) {
        const u8* row = w + size_t(n0 + n) * row_bytes;
        if (k0 + k + 8 <= K) {
            F::decode8(row, k0 + k, e);
        } else {
#if K % 8 != 0
            for (u32 j = 0; k0 + k + j < K; j++) e[j] = F::one(row, k0 + k + j);
#endif
        }
    }
#pragma unroll
    for (u32 j = 0; j < 8; j++) tile[k + j][n] = e[j];
}

__device__ __forceinline__ void add_tile(const float (*xs)[68], const float (*ws)[68], float sums[4][4]) {
    u32 r = threadIdx.x / 16 * 4, c = threadIdx.x % 16 * 4;
#pragma unroll 8
    for (u32 k = 0; k < STEP; k++) {
        float4 a = *(const float4*)&xs[k][r], b = *(const float4*)&ws[k][c];
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
    __shared__ __align__(16) float xs[STEP][68];
    __shared__ __align__(16) float ws[STEP][68];
#ifdef GLU
    __shared__ __align__(16) float us[STEP][68];
    float ups[4][4] = {};
#endif
    u32 n0 = block * 64, m0 = blockIdx.y * 64;
    float sums[4][4] = {};
    for (u32 k0 = 0; k0 < K; k0 += STEP) {
        u32 m = threadIdx.x / 4, k = threadIdx.x % 4 * 8;
        __syncthreads();
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            bool is_there = m0 + m < M && k0 + k + j < K;
            xs[k + j][m] = is_there ? x[size_t(m0 + m) * K + k0 + k + j] : 0.0f;
        }
        fetch_weights<F>(s.w, s.row_bytes, n0, s.n, k0, ws);
#ifdef GLU
        fetch_weights<UP_FORMAT>(s.up, UP_ROW_BYTES, n0, s.n, k0, us);
#endif
        __syncthreads();
        add_tile(xs, ws, sums);
#ifdef GLU
        add_tile(xs, us, ups);
#endif
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
