// gather      y[i, :] = table[ids[i], :], decoded
// shapes      table FORMAT[ROWS, K]    ids ID[n]    y f32[n, K]
// bytes       n rows of the table, 4*n*K
// launch      blocks of THREADS; a thread is 8 elements of a row, or one where K is no multiple of 8
// numerics    decoding as rlx-core's formats; a negative id counts from the end, one outside reads the nearest row
KERNEL(gather)(const u8* __restrict__ table, const ID* __restrict__ ids CTL_PARAMETER, float* __restrict__ y) {
    wait_for_previous();
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    u32 row = i / (K / WIDTH), at = i % (K / WIDTH) * WIDTH;
    if (row >= N || IS_LATE(row)) return;
    const u8* from = table + size_t(nearest(ids[row], ROWS)) * ROW_BYTES;
    float x[8];
#if WIDTH == 8
    FORMAT::decode8(from, at, x);
#else
    x[0] = FORMAT::one(from, at);
#endif
#pragma unroll
    for (u32 j = 0; j < WIDTH; j++) y[size_t(row) * K + at + j] = x[j];
}
