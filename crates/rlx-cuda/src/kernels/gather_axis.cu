// gather_axis y[o, j, c] = x[o, ids[j], c], or each element by an id of its own: y[o, j, c] = x[o, ids[o, j, c], c]
// shapes      x UNIT[outer, ROWS, INNER]    ids ID[IDS] or as y    y UNIT[outer, IDS, INNER]
// bytes       2 * COUNT units, and ids
// launch      blocks of 256 threads; a thread is a unit of 1 to 16 bytes
// numerics    a copy; a negative id counts from the end, one outside reads the nearest
KERNEL(gather_axis)(const UNIT* __restrict__ x, const ID* __restrict__ ids, UNIT* __restrict__ y NUMBERS) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= COUNT) return;
    u32 line = BY_INNER(i), outer = BY_IDS(line);
    u32 row = nearest(ids[ID_AT], ROWS);
    y[i] = x[(outer * ROWS + row) * INNER + i - line * INNER];
}
