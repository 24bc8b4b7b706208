// An element of a cache's row of HEAD elements: f32, f16 or blocks of q8_0.
__device__ __forceinline__ float cached(const u8* __restrict__ row, u32 e) {
#if CACHE_TYPE == 0
    return ((const float*)row)[e];
#elif CACHE_TYPE == 1
    return float_of_half(((const u16*)row)[e]);
#else
    const u8* block = row + e / 32 * 34;
    return float(i8(block[2 + e % 32])) * half_at(block);
#endif
}

