// grouped_matmul  y[m, j, n] = epilogue(sum over k of x[m, k] * W[ids[m, j], n, k]), or their sum over j by shares
// shapes      x f32[M, K] or f32[M, TOP_K, K]    W FORMAT[EXPERTS, N, K]    ids u32[M, TOP_K]    y f32
// bytes       the rows of the experts that are named, once for each time
// launch      a block of 128 threads is 4 columns of a row and expert, or of a row where experts are summed
// numerics    f32; a sum for each lane in order of k, then a tree; experts are added in order
template <class F>
__device__ __forceinline__ float product(const float* __restrict__ x, const u8* __restrict__ bank, u32 row_bytes,
                                         u32 expert, u32 n) {
    float sum[1][1] = {};
    const u8* w = bank + (size_t(expert) * N + n) * row_bytes;
    add_products<F, Absent, 1, 1, 1>(x, nullptr, w, row_bytes, w, 0, 0, threadIdx.x % WARP, sum, sum, nullptr);
    return warp_sum(sum[0][0]);
}

KERNEL(grouped_matmul)(const float* __restrict__ x, const u8* __restrict__ w WEIGHT_PARAMETER BIAS_PARAMETER,
                       const u32* __restrict__ ids SUM_PARAMETERS CTL_PARAMETER, float* y) {
    wait_for_previous();
#ifdef SUMS
    u32 m = blockIdx.x, first = 0, end = TOP_K;
#else
    u32 m = blockIdx.x / TOP_K, first = blockIdx.x % TOP_K, end = first + 1;
#endif
    if (IS_LATE(m)) return;
    // Warps of 64 lanes are two, and have two columns each.
    for (u32 n = blockIdx.y * 4 + threadIdx.x / WARP; n < min(blockIdx.y * 4 + 4, N); n += 128 / WARP) {
#ifdef SUMS
        float sum = 0.0f;
#endif
        for (u32 j = first; j < end; j++) {
            u32 pair = m * TOP_K + j, expert = min(ids[pair], EXPERTS - 1u);
            const float* row = x + size_t(X_ROW(m, pair)) * K;
            float v = product<FORMAT>(row, w, ROW_BYTES, expert, n);
            float u = 0.0f;
#ifdef GLU
            u = product<UP_FORMAT>(row, up, UP_ROW_BYTES, expert, n);
#endif
            v = EPILOGUE(v, u, expert, n);
#ifdef SUMS
            sum = fmaf(shares[pair], v, sum);
        }
        if (threadIdx.x % WARP == 0) y[size_t(m) * N + n] = FINISH(sum, m, n);
#else
            if (threadIdx.x % WARP == 0) y[size_t(pair) * N + n] = v;
        }
#endif
    }
}
