// attention   y[i, h] = softmax(cap(scale q[i, h] k^T)) v over the positions that row i sees      arXiv:2205.14135
// shapes      q, y f32[ROWS, HEADS * HEAD]    caches CACHE[KV, CAPACITY, HEAD]    ctl u32[16]    sinks f32[HEADS]
// bytes       q and y once; the positions that are seen, for each query head
// launch      a block of 4 warps is a row of a head
// numerics    f32
KERNEL(attention)(const float* __restrict__ q, const u8* __restrict__ keys, const u8* __restrict__ values,
                  const u32* __restrict__ ctl SINKS_PARAMETER, float* __restrict__ y) {
    wait_for_previous();
    u32 len = min(ctl[1], ROWS);
    if (blockIdx.x < len) attend_row(blockIdx.x, blockIdx.y, ctl[0], len, q, keys, values SINKS_ARGUMENT, y);
}
