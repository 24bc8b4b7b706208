// matmul      y_s[n] = f(sum_k x[k] W_s[n, k] + b_s[n]) (+ residual[n]), one row of x; with a norm x is
//             x * w / sqrt(mean(x^2) + eps); with glu y[n] = f(y_0[n]) * y_1[n]
// shapes      x f32[1, k]    W_s [rows_s, k], any of the formats above    y_s f32[1, rows_s]
// bytes       every weight byte once, as it lies in memory, by 16 bytes or 8; x once a SIMD group (its caches), which
//             has {{rows}} row(s) of {{streams}} weight(s): 4 / (rows * weights) bytes an element; q4_k has 0.56
// operations  a weight: a quarter of a shift and of a mask (q4_k), a conversion of its byte, a multiplication; a lane's
//             32 weights share a scale's decoding. About 3 of the 10 that an M1 (2.6 TFLOPS, 68 GB/s) has for a weight
//             of q4_k, 7 of an M1 Max (10.4, 400)
// launch      a threadgroup has {{columns}} rows at a time, a SIMD group {{rows}}; a lane has 32 elements of every
//             1,024, in registers: no threadgroup memory, no barrier
// numerics    f32; lanes' sums by simd_sum; the norm's scale meets the sums
struct Segment { uint first, rows, weight, row_bytes, bias, y, kind, stride; };
struct Step {
    uint k, chunks, m, groups, x, norm;
    float eps;
    uint residual, segments, repeat, pad1, pad2;
    Segment seg[4];
};

constexpr constant uint COLUMNS = {{columns}}u;
constexpr constant uint SUMS = ROWS * {{streams}}u;

{{maps}}inline float map_of(float x) { return {{map}}; }

kernel void own_matmul_vec(
  constant Step& step [[buffer(0)]]
{{buffers}}
, metal::uint3 id [[threadgroup_position_in_grid]]
, metal::uint3 launched [[threadgroups_per_grid]]
, uint lane [[thread_index_in_simdgroup]]
, uint simd [[simdgroup_index_in_threadgroup]]
) {
    uint group = id.y * launched.x + id.x;
    if (group >= step.groups) return;
    uint s = 0u;
    for (uint i = 1u; i < step.segments; i++) {
        if (group >= step.seg[i].first) s = i;
    }
    uint repeat = metal::max(step.repeat, 1u), last = step.seg[s].rows - 1u;
    device const float* x = (device const float*){{x}} + step.x;
    device const float* norm = {{norm}};
    device float* y = (device float*){{y}};
    for (uint again = 0u; again < repeat; again++) {
        uint row0 = ((group - step.seg[s].first) * repeat + again) * COLUMNS + simd * ROWS;
        // The same for all lanes.
        if (row0 > last) break;
        float sums[SUMS], squares = 0.0f;
        for (uint i = 0u; i < SUMS; i++) sums[i] = 0.0f;
        {{multiply}}
        float scale = 1.0f;
        if (NORM) scale = metal::rsqrt(metal::simd_sum(squares) / float(step.k) + step.eps);
        for (uint i = 0u; i < SUMS; i++) sums[i] = metal::simd_sum(sums[i]) * scale;
        // One lane a row.
        uint i = row0 + lane;
        float result = sums[0];
        for (uint r = 1u; r < ROWS; r++) {
            if (lane == r) result = sums[r];
        }
        {{other}}
        if (lane < ROWS && i <= last) {
            {{finish}}
            y[step.seg[s].y + i] = result;
        }
    }
}
