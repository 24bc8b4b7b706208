// state_write state[b, start + r, c] = x[b, r, c], where start is at[0], or less, so that all of x fits
// shapes      x FROM_TYPE[blocks, new, INNER], of new * INNER = RUN    at u32[1]    state TYPE[blocks, ROWS, INNER]
// bytes       x's, and as many elements of the state
// launch      blocks of 256 threads; a thread is an element of x, or 16 bytes where both types are one
// numerics    a copy, or rounding to the nearest, ties to even
KERNEL(state_write)(const FROM_TYPE* __restrict__ x, const u32* __restrict__ at, TYPE* __restrict__ state NUMBERS) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= COUNT) return;
    u32 block = BY_RUN(i), start = min(at[0], LAST);
    state[(block * ROWS + start) * INNER + i - block * RUN] = MADE(x[i]);
}
