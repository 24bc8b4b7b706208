// One row of x by ROWS rows of a weight, for a SIMD group: of every 1,024 elements a lane has 32.
constexpr constant uint ROWS = {{rows}}u;
constexpr constant bool NORM = {{has_norm}};

inline metal::float4 four_at(device const float* at) { return metal::float4(*(device const metal::packed_float4*)at); }
// Four elements of x, times the norm's weights.
inline metal::float4 normed(device const float* x, device const float* norm, uint e, thread float& squares) {
    metal::float4 v = four_at(x + e);
    if (!NORM) return v;
    squares += sum_of(v * v);
    return v * four_at(norm + e);
}
// What a lane adds to the sums of ROWS rows from `row0` on, of STREAMS weights of one type, where
// `sums[stream * ROWS + row]` is one.
template <class F, uint STREAMS>
inline void multiply(device const uchar* w0, device const uchar* w1, ulong row_bytes, uint row0, uint last,
                     device const float* x, device const float* norm, uint k, uint lane,
                     thread float* sums, thread float& squares) {
    for (uint p = lane; p < k / 32u; p += 32u) {
        X v;
        uint e = F::order::first(p);
        for (uint i = 0u; i < 4u; i++) {
            v.low[i] = normed(x, norm, e + i * 4u, squares);
            v.high[i] = normed(x, norm, e + F::order::GAP + i * 4u, squares);
        }
        if (F::SUMS != 0) {
            v.sums = metal::float2(sum_of((v.low[0] + v.low[1]) + (v.low[2] + v.low[3])),
                                   sum_of((v.high[0] + v.high[1]) + (v.high[2] + v.high[3])));
        }
        for (uint s = 0u; s < STREAMS; s++) {
            for (uint r = 0u; r < ROWS; r++) {
                device const uchar* row = (s == 0u ? w0 : w1) + ulong(metal::min(row0 + r, last)) * row_bytes;
                sums[s * ROWS + r] += F::dot(row, k, p, v);
            }
        }
    }
    // Elements behind the last whole 32.
    uint e = k / 32u * 32u + lane;
    if (e < k) {
        float v = x[e];
        if (NORM) {
            squares += v * v;
            v *= norm[e];
        }
        for (uint s = 0u; s < STREAMS; s++) {
            for (uint r = 0u; r < ROWS; r++) {
                device const uchar* row = (s == 0u ? w0 : w1) + ulong(metal::min(row0 + r, last)) * row_bytes;
                sums[s * ROWS + r] += F::order::element(row, e) * v;
            }
        }
    }
}
