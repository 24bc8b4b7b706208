// transpose   y[.., c, r] = x[.., r, c] by tiles of 32 by 32, over any other axes
// shapes      units of 1 to 8 bytes; both rows and columns may stand anywhere among the axes
// bytes       2 * rows * columns units of each batch
// launch      blocks of 256 threads; a block is a tile, a thread is 4 units of it
// numerics    a copy
KERNEL(transpose)(const UNIT* __restrict__ x, UNIT* __restrict__ y NUMBERS) {
    wait_for_previous();
    // A column more, so that threads read a column of the tile from different banks.
    __shared__ UNIT tile[32][33];
    u32 line = BY_ACROSS(blockIdx.x), batch = BY_DOWN(line);
    u32 column = (blockIdx.x - line * ACROSS) * 32, row = (line - batch * DOWN) * 32;
    u32 lane = threadIdx.x % 32, first = threadIdx.x / 32;
    INDICES
    x += size_t(FROM);
    y += size_t(TO);
#pragma unroll
    for (u32 k = first; k < 32; k += 8) {
        if (row + k < ROWS && column + lane < COLUMNS) tile[k][lane] = x[(row + k) * ROW_STRIDE + column + lane];
    }
    __syncthreads();
#pragma unroll
    for (u32 k = first; k < 32; k += 8) {
        if (column + k < COLUMNS && row + lane < ROWS) y[(column + k) * COLUMN_STRIDE + row + lane] = tile[lane][k];
    }
}
