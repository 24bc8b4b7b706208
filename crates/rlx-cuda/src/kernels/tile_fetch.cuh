// What a thread brings of a step of a tile of 64 rows by 64 columns (tile_sums.cuh): 8 elements of a row of x, and of
// weights; zeros where there are none.
__device__ __forceinline__ void fetch_row(const float* __restrict__ row, bool is_there, u32 k, float e[8]) {
#if WIDE_ROWS
    float4 zero = {0.0f, 0.0f, 0.0f, 0.0f}, low = zero, high = zero;
    if (is_there && k < K) {
        const float4* at = (const float4*)(row + k);
        low = at[0];
        high = at[1];
    }
    e[0] = low.x, e[1] = low.y, e[2] = low.z, e[3] = low.w;
    e[4] = high.x, e[5] = high.y, e[6] = high.z, e[7] = high.w;
#else
#pragma unroll
    for (u32 j = 0; j < 8; j++) e[j] = is_there && k + j < K ? row[k + j] : 0.0f;
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
