// iota        y[.., j, ..] = j along an axis of SIZE
// shapes      y TYPE[COUNT]
// bytes       y's
// launch      blocks of 256 threads; a thread is an element
// numerics    floats are the nearest, integers keep the low bits
KERNEL(iota)(TYPE* __restrict__ y NUMBERS) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= COUNT) return;
    u32 line = BY_INNER(i);
    y[i] = cast_to<TYPE>(line - BY_SIZE(line) * SIZE);
}
