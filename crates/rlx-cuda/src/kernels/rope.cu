// rope        pairs of a head's first dimensions turn by the angles of the row's position       arXiv:2104.09864
// shapes      x, y f32[ROWS, WIDTH]    table f32[LOW + HIGH, HALF, 2]    ctl u32[16]
// bytes       8*ROWS*WIDTH; the table from a cache
// launch      blocks of 128 threads; a thread is a pair, or a dimension that does not turn
// numerics    f32
KERNEL(rope)(const float* x, const float* __restrict__ table, const u32* __restrict__ ctl, float* y) {
    wait_for_previous();
    u32 i = blockIdx.x * 128 + threadIdx.x;
    u32 row = i / (WIDTH / HEAD * TURNS), head = i / TURNS % (WIDTH / HEAD);
    if (row >= ROWS) return;
    size_t at = size_t(row) * WIDTH + size_t(head) * HEAD;
    turn(x + at, y + at, table, ctl[0] + row, i % TURNS);
}
