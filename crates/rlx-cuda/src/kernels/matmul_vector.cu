// matmul      y[m, n] = epilogue(sum over k of x[m, k] * W[n, k]), for few rows of x and up to four weights; for one
//             where `matmul_one` does not fit or gain
// shapes      x f32[M, K]    W FORMAT[N, K]    y f32[M, N]    norm f32[K]: x is its RMS norm first
// bytes       W once; x from a cache, for each COLUMNS columns
// launch      a block of THREADS is COLUMNS columns of one weight: its threads take 8 elements of k each in turn
// numerics    f32; a sum for each lane in order of k, then a tree for each warp, then warps in order; the norm's root
//             multiplies the sum
#define WARPS (THREADS / WARP)

#ifndef GLU
#define UP_FORMAT Absent
#define UP_ROW_BYTES 0u
#endif

template <class F>
__device__ __forceinline__ void columns(u32 block, const float* __restrict__ x, const float* __restrict__ norm,
                                        const Segment s) {
    __shared__ float parts[WARPS][M * COLUMNS];
    u32 n0 = block * COLUMNS, thread = threadIdx.x, last = s.n - 1 - n0;
    const u8* w = s.w + size_t(n0) * s.row_bytes;
    fetch_ahead(w, (min(last, COLUMNS - 1u) + 1u) * s.row_bytes);
    const u8* up = s.up + size_t(n0) * UP_ROW_BYTES;
    fetch_ahead(up, (min(last, COLUMNS - 1u) + 1u) * UP_ROW_BYTES);
    wait_for_previous();
    float sums[M][COLUMNS] = {}, ups[M][COLUMNS] = {}, squares[M] = {};
    add_products<F, UP_FORMAT, M, COLUMNS, WARPS>(x, norm, w, s.row_bytes, up, UP_ROW_BYTES, last, thread, sums, ups,
                                                  squares);
    put_sums<M * COLUMNS>(sums[0], parts);
#ifdef GLU
    __shared__ float up_parts[WARPS][M * COLUMNS];
    put_sums<M * COLUMNS>(ups[0], up_parts);
#endif
#ifdef NORM
    __shared__ float square_parts[WARPS][M];
    put_sums<M>(squares, square_parts);
#endif
    __syncthreads();
    u32 m = thread / COLUMNS, c = thread % COLUMNS, n = n0 + c;
    if (m >= M || n >= s.n) return;
    float v = all_of<WARPS>(parts, m * COLUMNS + c), u = 0.0f;
#ifdef GLU
    u = all_of<WARPS>(up_parts, m * COLUMNS + c);
#endif
#ifdef NORM
    float scale = rsqrtf(all_of<WARPS>(square_parts, m) / float(K) + EPS);
    v *= scale;
    u *= scale;
#endif
    s.y[size_t(m) * s.n + n] = EPILOGUE(v, u, m, n);
}

KERNEL_OF(matmul_vector, THREADS)(PARAMETERS) {
#ifndef NORM
    const float* norm = nullptr;
#endif
    u32 block = blockIdx.x;
#define COMPUTE(F, ...) columns<F>(block, x, norm, Segment{__VA_ARGS__})
    SEGMENTS
}
