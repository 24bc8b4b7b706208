// planes      rows of q6_k or q8_0, whose blocks stand one behind the other, as `planes.cuh` has them
// shapes      w u8[rows, ROW_BYTES], K elements a row
// bytes       each row read and written once
// launch      a block of 128 threads is a row
// numerics    bits move
KERNEL(planes)(u8* w) {
    __shared__ __align__(16) u8 row[ROW_BYTES];
    wait_for_previous();
    u8* at = w + size_t(blockIdx.x) * ROW_BYTES;
    for (u32 i = threadIdx.x; i < ROW_BYTES / 16; i += 128) ((uint4*)row)[i] = ((const uint4*)at)[i];
    __syncthreads();
#if SIXES
    // Six bits of element e.
    auto six = [&](u32 e) {
        const u8* b = row + e / 256 * 210;
        u32 half = e % 256 / 128, run = e / 32 % 4, l = e % 32;
        u32 low = b[64 * half + 32 * (run % 2) + l] >> (4 * (run / 2)) & 15;
        return low | (b[128 + 32 * half + l] >> (2 * run) & 3) << 4;
    };
    for (u32 i = threadIdx.x; i < K / 2; i += 128) {
        u32 e = i / 16 * 32 + i % 16;
        at[i] = u8((six(e) & 15) | (six(e + 16) & 15) << 4);
    }
    for (u32 i = threadIdx.x; i < K / 4; i += 128) {
        u32 e = i / 4 * 16 + i % 4, pairs = 0;
        for (u32 j = 0; j < 4; j++) pairs |= (six(e + 4 * j) >> 4) << (2 * j);
        at[K / 2 + i] = u8(pairs);
    }
    for (u32 i = threadIdx.x; i < K / 16; i += 128) at[K / 4 * 3 + i] = row[i / 16 * 210 + 192 + i % 16];
    u16* scales = (u16*)(at + K / 4 * 3 + K / 16);
    for (u32 i = threadIdx.x; i < K / 256; i += 128) scales[i] = *(const u16*)(row + i * 210 + 208);
#else
    for (u32 i = threadIdx.x; i < K; i += 128) at[i] = row[i / 32 * 34 + 2 + i % 32];
    for (u32 i = threadIdx.x; i < K / 32; i += 128) ((u16*)(at + K))[i] = *(const u16*)(row + i * 34);
#endif
}
