// Puts element e of a head's row into a cache [.., CAPACITY, HEAD] of f32, f16 or blocks of q8_0, rounded as rlx-core's
// encode_q8_0 does it. Of a block 32 lanes of a warp come together.
__device__ __forceinline__ void store(u8* __restrict__ cache, u32 head, u32 position, u32 e, float v) {
    size_t at = size_t(head) * CAPACITY + position;
#if CACHE_TYPE == 0
    ((float*)cache)[at * HEAD + e] = v;
#elif CACHE_TYPE == 1
    ((u16*)cache)[at * HEAD + e] = half_of_float(v);
#else
    float most = fabsf(v);
#pragma unroll
    for (u32 by = 16; by > 0; by /= 2) most = fmaxf(most, __shfl_xor_sync(ALL_LANES, most, by));
    float d = most / 127.0f;
    float inverse = d > 0.0f ? 1.0f / d : 0.0f;
    u8* block = cache + (at * (HEAD / 32) + e / 32) * 34;
    if (e % 32 == 0) *(u16*)block = half_of_float(d);
    block[2 + e % 32] = u8(i8(int(roundf(v * inverse))));
#endif
}

// Where a position's row is.
#ifdef RING
#define CACHED_AT(position) ((position) % CAPACITY)
#define IS_CACHED(position) true
#else
#define CACHED_AT(position) (position)
#define IS_CACHED(position) ((position) < CAPACITY)
#endif
