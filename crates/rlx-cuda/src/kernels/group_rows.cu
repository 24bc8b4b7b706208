// group_rows  order[i]: pairs of a row and an expert, those of one expert behind each other; tiles[t]: an expert, the
//             first of its pairs in the order, and how many, 64 at most
// shapes      ids u32[M, TOP_K]    order u32[PAIRS]    tiles u32[TILES, 3], those behind the last one have no pairs
// bytes       8*PAIRS read, 4*PAIRS + 12*TILES written
// launch      one block of 512 threads
// numerics    integers; an expert's pairs come in any order, for each is computed by itself
KERNEL(group_rows)(const u32* __restrict__ ids CTL_PARAMETER, u32* order, u32* tiles) {
    wait_for_previous();
    __shared__ u32 counts[EXPERTS], firsts[EXPERTS], first_tiles[EXPERTS], used;
    for (u32 e = threadIdx.x; e < EXPERTS; e += 512) counts[e] = 0;
    __syncthreads();
    for (u32 i = threadIdx.x; i < PAIRS; i += 512) {
        if (!IS_LATE(i / TOP_K)) atomicAdd(&counts[min(ids[i], EXPERTS - 1u)], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 first = 0, tile = 0;
        for (u32 e = 0; e < EXPERTS; e++) {
            firsts[e] = first;
            first_tiles[e] = tile;
            first += counts[e];
            tile += (counts[e] + 63) / 64;
        }
        used = tile;
    }
    __syncthreads();
    for (u32 e = threadIdx.x; e < EXPERTS; e += 512) {
        u32* tile = tiles + 3 * first_tiles[e];
        for (u32 done = 0; done < counts[e]; done += 64, tile += 3) {
            tile[0] = e;
            tile[1] = firsts[e] + done;
            tile[2] = min(counts[e] - done, 64u);
        }
    }
    __syncthreads();
    for (u32 t = used + threadIdx.x; t < TILES; t += 512) tiles[3 * t + 2] = 0;
    for (u32 i = threadIdx.x; i < PAIRS; i += 512) {
        if (!IS_LATE(i / TOP_K)) order[atomicAdd(&firsts[min(ids[i], EXPERTS - 1u)], 1u)] = i;
    }
}
