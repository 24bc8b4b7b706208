// An element as the word of its order, and its index, which ends ties: no two are equal.
struct Pair {
    KEY key;
    u32 index;
};
__device__ __forceinline__ bool is_before(Pair a, Pair b) {
    return a.key < b.key || (a.key == b.key && a.index < b.index);
}
// Where element j of a run stands, of runs of n elements.
#define PLACE(run, n, j) (size_t(BY_INNER(run) * (n) + (j)) * INNER + ((run) - BY_INNER(run) * INNER))
