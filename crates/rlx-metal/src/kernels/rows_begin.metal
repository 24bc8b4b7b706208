struct Segment { uint first, rows, weight, row_bytes, bias, y, kind, stride; };
struct Step {
    uint k, chunks, m, groups, x, norm;
    float eps;
    uint residual, segments, repeat, pad1, pad2;
    Segment seg[4];
};

constexpr constant bool SCALED = {{is_scaled}};    // whether rows of x come into the range of f16
constexpr constant bool NORM = {{has_norm}};
constexpr constant uint ROWS = {{rows}}u;
constexpr constant uint COLUMNS = {{columns}}u;
constexpr constant uint LANES = 128u / ROWS;    // that share a row of x
constexpr constant uint EACH = 32u / LANES;     // elements of 32 that one of them has

{{maps}}inline float map_of(float x) { return {{map}}; }

// Four elements of a row of x from e on, with what the norm asks.
inline metal::float4 four_of_x(device const uchar* row, device const uchar* norm, uint e, uint k,
                               thread float& squares) {
    metal::float4 v = four_of<f32_number>(row, e, k);
    if (!NORM) return v;
    squares += sum_of(v * v);
    return v * four_of<f32_number>(norm, e, k);
}

kernel void own_{{entry}}(
  constant Step& step [[buffer(0)]]
{{buffers}}
, threadgroup uchar* memory [[threadgroup(0)]]
, threadgroup float* scales [[threadgroup(1)]]
, metal::uint3 id [[threadgroup_position_in_grid]]
, metal::uint3 launched [[threadgroups_per_grid]]
, uint index [[thread_index_in_threadgroup]]
, uint simd [[simdgroup_index_in_threadgroup]]
) {
    uint group = id.y * launched.x + id.x;
    uint m0 = (group / step.groups) * {{tile}}u;
    // Tiles of a launch may have fewer rows than ours: the first of those that are one here makes all of its rows.
    if (m0 % ROWS != 0u || m0 >= step.m{{skip}}) return;
    uint column = group % step.groups, s = 0u;
    for (uint i = 1u; i < step.segments; i++) {
        if (column >= step.seg[i].first) s = i;
    }
    uint n0 = (column - step.seg[s].first) * COLUMNS;

    // Where the results will lie, once nobody reads what is multiplied.
    threadgroup float* results = (threadgroup float*)memory;

    // A row of x for lanes side by side, which take turns.
    uint r = index / LANES, own = index % LANES * EACH;
    ulong x_at = ulong(step.x) + ulong(metal::min(m0 + r, step.m - 1u)) * step.k;
    device const uchar* row = (device const uchar*)((device const float*){{x}} + x_at);
    device const uchar* norm = {{norm}};
    float scale = 1.0f, unscale = 1.0f, squares = 0.0f;
    if (SCALED) {
        float largest = 0.0f, ignored = 0.0f;
        for (uint c = 0u; c < step.chunks; c++) {
            for (uint i = 0u; i < EACH; i += 4u) {
                metal::float4 v = metal::abs(four_of_x(row, norm, c * 32u + own + i, step.k, ignored));
                largest = metal::max(largest, metal::max(metal::max(v.x, v.y), metal::max(v.z, v.w)));
            }
        }
        for (uint mask = 1u; mask < LANES; mask *= 2u) {
            largest = metal::max(largest, metal::simd_shuffle_xor(largest, mask));
        }
        uint exponent = metal::clamp(as_type<uint>(largest) >> 23u, 8u, 254u);
        scale = as_type<float>((261u - exponent) << 23u);
        unscale = as_type<float>((exponent - 7u) << 23u);
    }

    // The row of a weight that this thread decodes half of: lanes side by side have rows side by side.
    uint n = index % 64u, half_of_w = index / 64u;
    uint from = {{segment}};
    uint w_row = metal::min({{w_row}}, step.seg[from].rows - 1u);
    ulong w_at = ulong(step.seg[from].weight) + ulong(w_row) * step.seg[from].row_bytes;
