// matmul      y_s[m, n] = f(sum_k x[m, k] W_s[n, k] + b_s[n]) (+ residual[m, n]); with a norm x is
//             x * w / sqrt(mean(x^2) + eps); with glu y[m, n] = f(y_0[m, n]) * y_1[m, n]
// shapes      x f32[m, k]    W_s [rows_s, k], any of the formats above    y_s f32[m, rows_s]
// bytes       weights once for {{rows}} rows of x; x once for 64 rows of a weight (half: twice, first for the largest)
// launch      a threadgroup of 128 makes {{rows}} x 64 results (glu: {{rows}} x 32 of both weights), a SIMD group half
//             of the rows and half of the columns as matrices of 8 x 8; tiles whose rows are all at or past ctl.len are
//             not made
// numerics    float: products and sums f32. half: x times a power of two that brings a row's largest element below 256,
//             and weights, rounded to f16; products and sums f32
struct Segment { uint first, rows, weight, row_bytes, bias, y, kind, stride; };
struct Step {
    uint k, chunks, m, groups, x, norm;
    float eps;
    uint residual, segments, repeat, pad1, pad2;
    Segment seg[4];
};

typedef {{number}} number_t;
typedef metal::simdgroup_{{number}}8x8 number8x8_t;
constexpr constant bool HALF = {{is_half}};
constexpr constant bool NORM = {{has_norm}};
constexpr constant uint ROWS = {{rows}}u;
constexpr constant uint COLUMNS = {{columns}}u;
constexpr constant uint HIGH = ROWS / 16u;      // matrices of a SIMD group above each other; four are side by side
constexpr constant uint LANES = 128u / ROWS;    // that share a row of x
constexpr constant uint EACH = 32u / LANES;     // elements of 32 that one of them has
// Numbers of a row of x in a tile, with eight more that keep rows in different banks; and of one k of the weights.
constexpr constant uint X_ROW = 40u;
constexpr constant uint W_ROW = 64u;

{{maps}}inline float map_of(float x) { return {{map}}; }

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
    uint m0 = (group / step.groups) * ROWS;
    if (m0 >= step.m{{skip}}) return;
    uint column = group % step.groups, s = 0u;
    for (uint i = 1u; i < step.segments; i++) {
        if (column >= step.seg[i].first) s = i;
    }
    uint n0 = (column - step.seg[s].first) * COLUMNS;
    threadgroup number_t* xs = (threadgroup number_t*)memory;
    threadgroup number_t* ws = xs + ROWS * X_ROW;

    // A row of x for lanes side by side, which take turns.
    uint r = index / LANES, own = index % LANES * EACH;
    ulong x_at = ulong(step.x) + ulong(metal::min(m0 + r, step.m - 1u)) * step.k;
    device const uchar* row = (device const uchar*)((device const float*){{x}} + x_at);
    device const uchar* norm = {{norm}};
    float scale = 1.0f, squares = 0.0f;
    if (HALF) {
        float largest = 0.0f;
        for (uint c = 0u; c < step.chunks; c++) {
            for (uint i = 0u; i < EACH; i += 4u) {
                metal::float4 v = metal::abs(four_of<f32_number>(row, c * 32u + own + i, step.k));
                largest = metal::max(largest, metal::max(metal::max(v.x, v.y), metal::max(v.z, v.w)));
            }
        }
        for (uint mask = 1u; mask < LANES; mask *= 2u) {
            largest = metal::max(largest, metal::simd_shuffle_xor(largest, mask));
        }
        uint exponent = metal::clamp(as_type<uint>(largest) >> 23u, 8u, 254u);
        scale = as_type<float>((261u - exponent) << 23u);
        if (own == 0u) scales[r] = as_type<float>((exponent - 7u) << 23u);
    }

    // The row of a weight that this thread decodes half of: lanes side by side write numbers side by side.
    uint n = index % 64u, half_of_w = index / 64u;
    uint from = {{segment}};
    uint w_row = metal::min({{w_row}}, step.seg[from].rows - 1u);
    ulong w_at = ulong(step.seg[from].weight) + ulong(w_row) * step.seg[from].row_bytes;

    uint top = ROWS / 2u * (simd / 2u), left = 32u * (simd % 2u);
    metal::simdgroup_float8x8 sums[HIGH][4];
    for (uint i = 0u; i < HIGH; i++) {
        for (uint j = 0u; j < 4u; j++) sums[i][j] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    for (uint c = 0u; c < step.chunks; c++) {
        metal::float4 w[4], x[EACH / 4u];
        {{decode}}
        for (uint i = 0u; i < EACH / 4u; i++) {
            uint e = c * 32u + own + i * 4u;
            x[i] = four_of<f32_number>(row, e, step.k) * metal::float4(scale);
            if (NORM) {
                squares += sum_of(x[i] * x[i]);
                x[i] = x[i] * four_of<f32_number>(norm, e, step.k);
            }
        }
        // Nobody multiplies what was there before.
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        for (uint i = 0u; i < EACH; i++) xs[r * X_ROW + own + i] = number_t(x[i / 4u][i % 4u]);
        for (uint i = 0u; i < 16u; i++) ws[(half_of_w * 16u + i) * W_ROW + n] = number_t(w[i / 4u][i % 4u]);
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        for (uint q = 0u; q < 4u; q++) {
            number8x8_t a[HIGH], b[4];
            for (uint i = 0u; i < HIGH; i++) metal::simdgroup_load(a[i], xs + (top + 8u * i) * X_ROW + 8u * q, X_ROW);
            for (uint j = 0u; j < 4u; j++) metal::simdgroup_load(b[j], ws + 8u * q * W_ROW + left + 8u * j, W_ROW);
            for (uint i = 0u; i < HIGH; i++) {
                for (uint j = 0u; j < 4u; j++) {
                    metal::simdgroup_multiply_accumulate(sums[i][j], a[i], b[j], sums[i][j]);
                }
            }
        }
    }
    if (!HALF) {
        for (uint mask = 1u; mask < LANES; mask *= 2u) squares += metal::simd_shuffle_xor(squares, mask);
        if (own == 0u) scales[r] = NORM ? metal::rsqrt(squares / float(step.k) + step.eps) : 1.0f;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    threadgroup float* results = (threadgroup float*)memory;
    for (uint i = 0u; i < HIGH; i++) {
        for (uint j = 0u; j < 4u; j++) {
            metal::simdgroup_store(sums[i][j], results + (top + 8u * i) * 64u + left + 8u * j, 64u);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    device float* y = (device float*){{y}};
    for (uint at = index; at < ROWS * COLUMNS; at += 128u) {
        uint m = at / COLUMNS, i = n0 + at % COLUMNS;
        if (m0 + m >= step.m || i >= step.seg[s].rows) continue;
        ulong to = ulong(m0 + m) * step.seg[s].stride + i;
        float result = results[m * 64u + at % COLUMNS] * scales[m];
        {{finish}}
        y[step.seg[s].y + to] = result;
    }
}
