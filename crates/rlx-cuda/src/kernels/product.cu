// product     y[b, m, n] = sum over k of a[b, m, k] * w[b, n, k]: batch_matmul and dot_general, by their names, and
//             matmul of narrow rows, with FOLLOWED: a bias and a residual, which may be y
// shapes      a, w T in any order of axes, of which batches may repeat    y T[BATCH, M, N]
// bytes       a's for each 64 columns of y, w's for each 64 rows, y's once
// launch      a block of 256 threads is a tile of 64 rows by 64 columns of a batch
// numerics    f32, or what tensor cores make as near to it (tile_sums.cuh); sums of steps in order of k; rounded once
KERNEL(product)(const T* __restrict__ a, const T* __restrict__ w, T* y FOLLOWING_PARAMETERS) {
    wait_for_previous();
    const u32 tiles_m = (M + 63) / 64, tiles_n = (N + 63) / 64;
    u32 batch = blockIdx.x / (tiles_m * tiles_n);
    u32 m0 = blockIdx.x / tiles_n % tiles_m * 64, n0 = blockIdx.x % tiles_n * 64;
    float sums[16] = {};
    product_tile(Strided<Rows>(a + batch_of_a(batch), m0), Strided<Columns>(w + batch_of_w(batch), n0), sums);
#pragma unroll
    for (u32 i = 0; i < 16; i++) {
        u32 m = m0 + row_of<IS_SHORT>(i), n = n0 + column_of<IS_SHORT>(i);
        if (m < M && n < N) y[(size_t(batch) * M + m) * N + n] = rounded_to<T>(FOLLOWED(sums[i], m, n));
    }
}
