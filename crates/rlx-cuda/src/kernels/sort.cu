// sort        the elements of each tile of a run in order: results where a run is a tile, else lists of the first LEN
// shapes      x TYPE[outer, N, INNER]    results [outer, KEPT, INNER]    lists Pair[RUNS, TILES, LEN]
// bytes       x's, and those of the results or lists
// launch      blocks of TILE / 2 threads; a block is a tile of a run
// numerics    exact; a bitonic network [Batcher 1968]
KERNEL(sort)(const TYPE* __restrict__ x RESULTS NUMBERS) {
    wait_for_previous();
    __shared__ Pair pairs[TILE];
    u32 run = BY_TILES(blockIdx.x), tile = blockIdx.x - run * TILES;
    for (u32 j = threadIdx.x; j < TILE; j += TILE / 2) {
        u32 index = tile * TILE + j;
        // What is behind the run stands behind all of it.
        Pair pair = {KEY(~KEY(0)), index};
        if (index < N) pair.key = ORDERED(key_of(value_of(x[PLACE(run, N, index)])));
        pairs[j] = pair;
    }
    for (u32 size = 2; size <= TILE; size *= 2) {
        for (u32 by = size / 2; by > 0; by /= 2) {
            __syncthreads();
            u32 low = threadIdx.x / by * by * 2 + threadIdx.x % by, high = low + by;
            // Halves of every second size are put in the opposite order.
            bool is_up = (low & size) == 0;
            Pair a = pairs[low], b = pairs[high];
            if (is_before(b, a) == is_up) {
                pairs[low] = b;
                pairs[high] = a;
            }
        }
    }
    __syncthreads();
    for (u32 j = threadIdx.x; j < min(TILE, KEPT); j += TILE / 2) {
        Pair pair = pairs[j];
#if IS_LAST
        size_t at = PLACE(run, KEPT, j);
        STORE
#else
        if (pair.index < N) lists[(size_t(run) * TILES + tile) * LEN + j] = pair;
#endif
    }
}
