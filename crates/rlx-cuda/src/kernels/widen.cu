// widen       y[n, k] = f16(w[n, k]): packed weights for a product of f16
// shapes      w FORMAT[N, K]    y f16[N, K], K a multiple of 8
// bytes       w once, 2*N*K written
// launch      a thread has eight elements
// numerics    rounded to 11 bits
KERNEL(widen)(const u8* __restrict__ w, u16* __restrict__ y) {
    wait_for_previous();
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i >= size_t(N) * (K / 8)) return;
    u32 n = u32(i / (K / 8)), k = u32(i % (K / 8)) * 8;
    float e[8];
    W_FORMAT::decode8(w + size_t(n) * W_ROW_BYTES, k, e);
    u64 parts[2] = {0, 0};
#pragma unroll
    for (u32 j = 0; j < 8; j++) parts[j / 4] |= u64(half_of_float(e[j])) << (16 * (j % 4));
    u64* to = (u64*)(y + size_t(n) * K + k);
    to[0] = parts[0], to[1] = parts[1];
}
