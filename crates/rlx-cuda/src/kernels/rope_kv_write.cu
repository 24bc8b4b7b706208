// rope_kv_write  q turns as in rope; k turns, and it and v go to the caches as in kv_write
// shapes         q, y f32[ROWS, WIDTH]    k, v f32[ROWS, HEADS * HEAD]    table f32[LOW + HIGH, HALF, 2]
//                caches CACHE[HEADS, CAPACITY, HEAD]    ctl u32[16]
// bytes          8*ROWS*WIDTH + 8*ROWS*HEADS*HEAD, the caches' bytes written; the table from a cache
// launch         blocks of THREADS, for each row: QUERIES have threads as in rope, others an element of k or v each
// numerics       f32, rounded to the caches' type
KERNEL(rope_kv_write)(const float* q, const float* __restrict__ k, const float* __restrict__ v,
                      const float* __restrict__ table, u8* __restrict__ keys, u8* __restrict__ values,
                      const u32* __restrict__ ctl, float* y) {
    wait_for_previous();
    u32 past = ctl[0], len = ctl[1], done = ctl[4], row = blockIdx.y;
    if (blockIdx.x < QUERIES) {
        u32 i = blockIdx.x * THREADS + threadIdx.x, head = i / TURNS;
        if (head >= WIDTH / HEAD) return;
        size_t at = size_t(row) * WIDTH + size_t(head) * HEAD;
        turn(q + at, y + at, table, past + row, i % TURNS);
        return;
    }
    u32 i = (blockIdx.x - QUERIES) * THREADS + threadIdx.x;
    u32 head = i / HEAD % HEADS, e = i % HEAD, position = past + row;
    bool is_value = i >= HEADS * HEAD;
    // Whole warps leave together: a head of blocks is a multiple of 32 elements.
    if (i >= 2 * HEADS * HEAD || done != 0 || row >= min(len, ROWS) || !IS_CACHED(position)) return;
    size_t at = size_t(row) * HEADS * HEAD + head * HEAD;
    float x = is_value ? v[at + e] : turned(k + at, table, position, e);
    store(is_value ? values : keys, head, CACHED_AT(position), e, x);
}
