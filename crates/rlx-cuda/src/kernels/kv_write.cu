// kv_write    row i of x goes to the cache's row past + i of every head
// shapes      x f32[ROWS, HEADS * HEAD]    cache CACHE[HEADS, CAPACITY, HEAD]    ctl u32[16]
// bytes       4 an element read, the cache's bytes written
// launch      blocks of 128 threads; a thread is an element, for blocks a warp of 32 lanes is a block
// numerics    rounded to the cache's type
KERNEL(kv_write)(u8* __restrict__ cache, const float* __restrict__ x, const u32* __restrict__ ctl) {
    wait_for_previous();
    u32 past = ctl[0], len = ctl[1], done = ctl[4];
    u32 i = blockIdx.x * 128 + threadIdx.x;
    u32 row = i / (HEADS * HEAD), head = i / HEAD % HEADS, e = i % HEAD, position = past + row;
    // Whole warps leave together: a head of blocks is a multiple of 32 elements.
    if (done != 0 || row >= min(len, ROWS) || !IS_CACHED(position)) return;
    store(cache, head, CACHED_AT(position), e, x[size_t(row) * HEADS * HEAD + head * HEAD + e]);
}
