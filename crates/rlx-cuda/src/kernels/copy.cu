// copy        y[TO] = x[FROM] for each i of COUNT: boxes of elements, whose places are linear in the indices along axes
// shapes      units of 1 to 16 bytes, which elements that lie side by side are copied by
// bytes       2 * COUNT units
// launch      blocks of 256 threads; a thread is a unit
// numerics    a copy
KERNEL(copy)(const UNIT* __restrict__ x, UNIT* __restrict__ y NUMBERS) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= COUNT) return;
    INDICES
    y[TO] = x[FROM];
}
