// Sums that the lanes of a warp have, one for each of Count results: their sum by warp, and the sum of several warps.
template <u32 Count>
__device__ __forceinline__ void put_sums(const float* sums, float (*parts)[Count]) {
#pragma unroll
    for (u32 i = 0; i < Count; i++) {
        float v = warp_sum(sums[i]);
        if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP][i] = v;
    }
}

template <u32 Warps, u32 Count>
__device__ __forceinline__ float all_of(const float (*parts)[Count], u32 i) {
    float all = 0.0f;
#pragma unroll
    for (u32 warp = 0; warp < Warps; warp++) all += parts[warp][i];
    return all;
}
