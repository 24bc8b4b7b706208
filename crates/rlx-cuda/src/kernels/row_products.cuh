// Sums of the products of ROWS rows of x, K long and one behind the other, with a row of weights: a lane of a warp takes
// 8 of each 256 elements, so that the sum is that of all lanes.
template <class F, u32 ROWS>
__device__ __forceinline__ void add_products(const float* __restrict__ x, const u8* __restrict__ w, u32 lane, float* sums) {
    u32 k = lane * 8;
    for (; k + 8 <= K; k += WARP * 8) {
        float e[8];
        F::decode8(w, k, e);
#pragma unroll
        for (u32 m = 0; m < ROWS; m++) {
#if K % 4 == 0
            const float4* at = (const float4*)(x + size_t(m) * K + k);
            float4 a = at[0], b = at[1];
            float v[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#else
            float v[8];
            for (u32 j = 0; j < 8; j++) v[j] = x[size_t(m) * K + k + j];
#endif
#pragma unroll
            for (u32 j = 0; j < 8; j++) sums[m] = fmaf(e[j], v[j], sums[m]);
        }
    }
#if K % 8 != 0
    // The last elements: rows of blocks have none.
    u32 from = K / 8 * 8 + lane;
    for (u32 m = 0; m < ROWS && from < K; m++) sums[m] = fmaf(F::one(w, from), x[size_t(m) * K + from], sums[m]);
#endif
}

