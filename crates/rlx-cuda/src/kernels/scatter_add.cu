// scatter_add y[o, r, c] = target[o, r, c] + the sum of updates[o, j, c] over all j whose id is r
// shapes      target, y TYPE[outer, ROWS, INNER]    ids ID[IDS]    updates TYPE[outer, IDS, INNER]
// bytes       twice the target's, the updates', and ids for each block
// launch      blocks of 256 threads; a thread is an element of y, and looks at ids where they are its block's rows
// numerics    f32, or f64 of f64, in the order of ids, rounded once; integers wrap. An id outside adds nothing
KERNEL(scatter_add)(const TYPE* __restrict__ target, const ID* __restrict__ ids, const TYPE* __restrict__ updates,
                    TYPE* __restrict__ y NUMBERS) {
    wait_for_previous();
    __shared__ u32 rows[256], n_own;
    u32 i = blockIdx.x * 256 + threadIdx.x, at = min(i, COUNT - 1u);
    u32 line = BY_INNER(at), outer = BY_ROWS(line), row = line - outer * ROWS;
    // The rows that the block has elements of: in most tiles of ids there is none of them.
    u32 low = BY_INNER(blockIdx.x * 256), high = BY_INNER(min(blockIdx.x * 256 + 255, COUNT - 1u));
    bool is_one = BY_ROWS(low) == BY_ROWS(high);
    low = is_one ? low - outer * ROWS : 0u;
    high = is_one ? high - outer * ROWS : ROWS - 1u;
    VALUE sum = value_of(target[at]);
    for (u32 first = 0; first < IDS; first += min(256u, IDS - first)) {
        u32 n = min(256u, IDS - first);
        __syncthreads();
        if (threadIdx.x == 0) n_own = 0;
        __syncthreads();
        if (threadIdx.x < n) {
            u32 id = inside(ids[first + threadIdx.x], ROWS);
            rows[threadIdx.x] = id;
            if (id >= low && id <= high) atomicAdd(&n_own, 1u);
        }
        __syncthreads();
        if (n_own == 0) continue;
        const TYPE* from = updates + size_t(outer * IDS + first) * INNER + (at - line * INNER);
        for (u32 j = 0; j < n; j++) {
            if (rows[j] == row) sum = SUM(sum, value_of(from[size_t(j) * INNER]));
        }
    }
    if (i < COUNT) y[i] = rounded_to<TYPE>(sum);
}
