// grouped_matmul  y_s[m, j, n] = sum_k x[m, k] W_s[e, n, k] + b_s[e, n] with e = ids[m, j]; with glu
//             y[m, j, n] = f(y_0) * y_1, of a limit f(min(y_0, limit)) * (clamp(y_1, -limit, limit) + 1)
//   sum       y[m, n] = sum_j shares[m, j] (sum_k x[m, j, k] W[e, n, k] + b[e, n]) (+ residual[m, n])
// shapes      x f32[m, k] or [m, j, k]    W_s [e, rows_s, k], any of the formats above    y_s f32[m, j, rows_s]
// bytes       every byte of the matrix of each expert of each row once; x once a SIMD group (its caches)
// launch      a threadgroup has {{columns}} rows of one expert of a row of x, a SIMD group {{rows}} of them; of a sum
//             it has {{columns}} rows of the result, and each of its SIMD groups experts
// numerics    f32; lanes' sums by simd_sum, then those of SIMD groups
struct Segment { uint first, rows, weight, row_bytes, bias, y, kind, pad; };
struct Step {
    uint k, chunks, m, groups, x, residual, segments, top_k, experts, ids, shares, pad;
    Segment seg[2];
};

constexpr constant uint COLUMNS = {{columns}}u;
constexpr constant uint SUMS = ROWS * {{streams}}u;

{{maps}}inline float map_of(float x) { return {{map}}; }

kernel void own_{{entry}}(
  constant Step& step [[buffer(0)]]
{{buffers}}
{{memory}}
, metal::uint3 id [[threadgroup_position_in_grid]]
, metal::uint3 launched [[threadgroups_per_grid]]
, uint index [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint simd [[simdgroup_index_in_threadgroup]]
) {
    uint group = id.y * launched.x + id.x;
    device const uint* ids = (device const uint*){{ids}} + step.ids;
    device float* y = (device float*){{y}};
    float sums[SUMS], squares = 0.0f;
    for (uint i = 0u; i < SUMS; i++) sums[i] = 0.0f;
{{body}}
}
