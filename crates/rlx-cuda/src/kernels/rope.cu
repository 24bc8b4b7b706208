// rope        pairs of a head's first dimensions turn by the angles of the row's position       arXiv:2104.09864
// shapes      x, y f32[ROWS, WIDTH]    table f32[.., HALF, 2]: HIGH rows of cos and sin behind LOW ones
// bytes       8*ROWS*WIDTH; the table from a cache
// launch      blocks of 128 threads; a thread is a pair, or a dimension that does not turn
// numerics    f32; the angles of both tables are added by the addition theorems
KERNEL(rope)(const float* x, const float* __restrict__ table, const u32* __restrict__ ctl,
             float* y) {
    wait_for_previous();
    const u32 each = HALF + (HEAD - 2 * HALF);
    u32 i = blockIdx.x * 128 + threadIdx.x;
    u32 row = i / (WIDTH / HEAD * each), head = i / each % (WIDTH / HEAD), d = i % each;
    if (row >= ROWS) return;
    // A pair is read and written by one thread: y may be where x is.
    size_t at = size_t(row) * WIDTH + size_t(head) * HEAD;
    if (d >= HALF) {
        y[at + d + HALF] = x[at + d + HALF];
        return;
    }
    u32 position = min(ctl[0] + row, LOW * HIGH - 1u);
    const float* a = table + (size_t(LOW + position / LOW) * HALF + d) * 2;
    const float* b = table + (size_t(position % LOW) * HALF + d) * 2;
    float c = a[0] * b[0] - a[1] * b[1], s = a[1] * b[0] + a[0] * b[1];
#ifdef ADJACENT
    size_t first = at + 2 * d, second = first + 1;
#else
    size_t first = at + d, second = first + HALF;
#endif
    float p = x[first], q = x[second];
    y[first] = p * c - q * s;
    y[second] = p * s + q * c;
}
