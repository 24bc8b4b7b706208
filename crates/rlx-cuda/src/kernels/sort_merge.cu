// sort_merge  lists 2l and 2l + 1 of a run become one, of which the first KEPT elements stay: results where it is last
// shapes      from Pair[RUNS, LISTS, LEN], a list of each SPAN elements    lists Pair[RUNS, NEXT_LISTS, NEXT_LEN]
// bytes       those of the lists, and log2(LEN) pairs for each element from a cache
// launch      blocks of 256 threads; a thread is an element of a list and counts those of the other that come before it
// numerics    exact
KERNEL(sort_merge)(const TYPE* __restrict__ x RESULTS, const Pair* __restrict__ from NUMBERS) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= COUNT) return;
    u32 line = BY_LEN(i), j = i - line * LEN, run = BY_LISTS(line), list = line - run * LISTS;
    if (j >= min(N - list * SPAN, LEN)) return;
    Pair pair = from[i];
    u32 other = list ^ 1u, rank = j;
    if (other < LISTS) {
        const Pair* beside = from + (size_t(run) * LISTS + other) * LEN;
        u32 low = 0, high = min(N - other * SPAN, LEN);
        while (low < high) {
            u32 middle = (low + high) / 2;
            if (is_before(beside[middle], pair)) low = middle + 1;
            else high = middle;
        }
        rank += low;
    }
    if (rank >= KEPT) return;
#if IS_LAST
    size_t at = PLACE(run, KEPT, rank);
    STORE
#else
    lists[(size_t(run) * NEXT_LISTS + list / 2) * NEXT_LEN + rank] = pair;
#endif
}
