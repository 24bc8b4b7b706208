// Cosine and sine of pair i at a position: products of a low and a high row of the table.
inline metal::float2 angle(device const float* table, uint position, uint low_rows, uint half_dims, uint i) {
    device const float* b = table + ulong(position % low_rows * half_dims + i) * 2u;
    device const float* a = table + ulong((low_rows + position / low_rows) * half_dims + i) * 2u;
    return metal::float2(a[0] * b[0] - a[1] * b[1], a[1] * b[0] + a[0] * b[1]);
}
// Dimension d of a head, turned; `norm` and `by` scale it before.
inline float turned(device const float* head, device const float* norm, float by, device const float* table,
                    uint position, uint low_rows, uint half_dims, uint d) {
    float x = head[d];
    if (NORM) x = x * by * norm[d];
    if (d >= 2u * half_dims) return x;
    uint partner = {{partner}}, pair = {{pair}};
    bool is_first = {{is_first}};
    float other = head[partner];
    if (NORM) other = other * by * norm[partner];
    metal::float2 cs = angle(table, position, low_rows, half_dims, pair);
    return x * cs.x + (is_first ? -other : other) * cs.y;
}
