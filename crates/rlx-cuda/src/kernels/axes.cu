// axes        y[i] = x[at], or OUTSIDE where i stands for no element: pads, rolls and windows as columns
// shapes      units of 1 to 8 bytes, one an element; PLACE makes `at` of the indices of i along the axes
// bytes       2 * COUNT units, less what is outside
// launch      blocks of 256 threads; a thread is an element
// numerics    a copy
KERNEL(axes)(const UNIT* __restrict__ x, UNIT* __restrict__ y NUMBERS) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= COUNT) return;
    u32 at = 0;
    bool is_inside = true;
    PLACE
    y[i] = is_inside ? x[at] : OUTSIDE;
}
