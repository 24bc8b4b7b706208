// kv_write    row i of x goes to the cache's row past + i of every head
// shapes      x f32[ROWS, HEADS * HEAD]    cache CACHE[HEADS, CAPACITY, HEAD]    ctl u32[16]
// bytes       4 an element read, the cache's bytes written
// launch      blocks of 128 threads; a thread is an element, for blocks a warp of 32 lanes is a block
// numerics    rounded to the cache's type; blocks as rlx-core's encode_q8_0
KERNEL(kv_write)(u8* __restrict__ cache, const float* __restrict__ x, const u32* __restrict__ ctl) {
    wait_for_previous();
    u32 past = ctl[0], len = ctl[1], done = ctl[4];
    u32 i = blockIdx.x * 128 + threadIdx.x;
    u32 row = i / (HEADS * HEAD), head = i / HEAD % HEADS, e = i % HEAD;
    // Whole warps leave together: a head of blocks is a multiple of 32 elements.
    if (done != 0 || row >= min(len, ROWS)) return;
    u32 position = past + row;
#ifdef RING
    position %= CAPACITY;
#else
    if (position >= CAPACITY) return;
#endif
    float v = x[size_t(row) * HEADS * HEAD + head * HEAD + e];
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
