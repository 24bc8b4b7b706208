// matmul      y_s[m, n] = f(sum_k x[m, k] W_s[n, k] + b_s[n]) (+ residual[m, n]); with glu
//             y[m, n] = f(y_0[m, n]) * y_1[m, n]
// shapes      x f32[m, k]    W_s [rows_s, k] of f16, q4_0, q8_0, q4_k or q6_k    y_s f32[m, rows_s]
// bytes       weights once for 64 rows of x; x twice for 64 rows of a weight: its largest elements, then all
// launch      a threadgroup of 128 makes 64 x 64 results (glu: 64 x 32 of both weights), a SIMD group 32 x 32 of them
//             as 16 matrices of 8 x 8; tiles whose rows are all at or past ctl.len are not made
// numerics    x times a power of two that brings a row's largest element below 256, and weights, rounded to f16;
//             products and sums f32
struct Segment { uint first, rows, weight, row_bytes, bias, y, kind, stride; };
struct Step {
    uint k, chunks, m, groups, x, norm;
    float eps;
    uint residual, segments, repeat, pad1, pad2;
    Segment seg[4];
};

constant uint ROWS = 64u;
// Halves of a row of x in a tile, with eight more that keep rows in different banks; and of one k of the weights.
constant uint X_ROW = 40u;
constant uint W_ROW = 64u;

inline float half_at(device const uchar* at) { return float(*(device const half*)at); }

// Sixteen weights of a row: those of half `h` of its run `c` of 32.
inline void decode_f16(device const uchar* row, uint k, uint c, uint h, thread half* w) {
    device const half* at = (device const half*)row;
    for (uint i = 0u; i < 16u; i++) {
        uint e = c * 32u + h * 16u + i;
        w[i] = e < k ? at[e] : half(0.0f);
    }
}
inline void decode_q4_0(device const uchar* row, uint k, uint c, uint h, thread half* w) {
    device const uchar* block = row + c * 18u;
    float d = half_at(block);
    for (uint i = 0u; i < 16u; i++) w[i] = half(d * float(int(block[2u + i] >> (4u * h) & 15u) - 8));
}
inline void decode_q8_0(device const uchar* row, uint k, uint c, uint h, thread half* w) {
    device const uchar* block = row + c * 34u;
    float d = half_at(block);
    device const signed char* q = (device const signed char*)(block + 2u + 16u * h);
    for (uint i = 0u; i < 16u; i++) w[i] = half(d * float(q[i]));
}
inline void decode_q4_k(device const uchar* row, uint k, uint c, uint h, thread half* w) {
    device const uchar* block = row + (c / 8u) * 144u;
    device const uchar* s = block + 4u;
    uint j = c % 8u;
    uint scale = s[j] & 63u, least = s[j + 4u] & 63u;
    if (j >= 4u) {
        scale = uint(s[j + 4u] & 15u) | uint(s[j - 4u] >> 6u) << 4u;
        least = uint(s[j + 4u] >> 4u) | uint(s[j] >> 6u) << 4u;
    }
    float d = half_at(block) * float(scale), m = half_at(block + 2u) * float(least);
    device const uchar* q = block + 16u + (j / 2u) * 32u + h * 16u;
    for (uint i = 0u; i < 16u; i++) w[i] = half(d * float(q[i] >> (4u * (j % 2u)) & 15u) - m);
}
// Blocks as a file has them, or rows in planes: all ql, qh, scales and then d.
template <bool PLANES>
inline void decode_q6_k(device const uchar* row, uint k, uint c, uint h, thread half* w) {
    uint i = c / 8u, n = k / 256u, part = c % 8u / 4u, j = c % 4u;
    device const uchar* ql = PLANES ? row + i * 128u : row + i * 210u;
    device const uchar* qh = PLANES ? row + n * 128u + i * 64u : row + i * 210u + 128u;
    device const uchar* s = PLANES ? row + n * 192u + i * 16u : row + i * 210u + 192u;
    device const uchar* d = PLANES ? row + n * 208u + i * 2u : row + i * 210u + 208u;
    float scale = half_at(d) * float(as_type<signed char>(s[part * 8u + j * 2u + h]));
    device const uchar* low = ql + part * 64u + (j % 2u) * 32u + h * 16u;
    device const uchar* high = qh + part * 32u + h * 16u;
    for (uint e = 0u; e < 16u; e++) {
        uint q = (low[e] >> (4u * (j / 2u)) & 15u) | (high[e] >> (2u * j) & 3u) << 4u;
        w[e] = half(scale * float(int(q) - 32));
    }
}

{{maps}}inline float map_of(float x) { return {{map}}; }

kernel void own_matmul_tile(
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
    uint n0 = (column - step.seg[s].first) * {{columns}}u;
    threadgroup half* xs = (threadgroup half*)memory;
    threadgroup half* ws = xs + ROWS * X_ROW;

    // A row of x for two lanes side by side, which take turns of 16 elements.
    uint r = index / 2u, h = index % 2u;
    device const float* row = (device const float*){{x}} + step.x + ulong(metal::min(m0 + r, step.m - 1u)) * step.k;
    float largest = 0.0f;
    for (uint c = 0u; c < step.chunks; c++) {
        uint end = metal::min(c * 32u + h * 16u + 16u, step.k);
        for (uint e = c * 32u + h * 16u; e < end; e++) largest = metal::max(largest, metal::abs(row[e]));
    }
    largest = metal::max(largest, metal::simd_shuffle_xor(largest, 1u));
    uint exponent = metal::clamp(as_type<uint>(largest) >> 23u, 8u, 254u);
    float scale = as_type<float>((261u - exponent) << 23u);
    if (h == 0u) scales[r] = as_type<float>((exponent - 7u) << 23u);

    // The row of a weight that this thread decodes half of: one lane beside the other writes one half beside the other.
    uint n = index % 64u, half_of_w = index / 64u;
    uint from = {{segment}};
    uint w_row = metal::min({{w_row}}, step.seg[from].rows - 1u);
    ulong w_at = ulong(step.seg[from].weight) + ulong(w_row) * step.seg[from].row_bytes;

    // A SIMD group's results: rows from 32 (simd / 2), columns from 32 (simd % 2).
    uint top = 32u * (simd / 2u), left = 32u * (simd % 2u);
    metal::simdgroup_float8x8 sums[4][4];
    for (uint i = 0u; i < 4u; i++) {
        for (uint j = 0u; j < 4u; j++) sums[i][j] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    for (uint c = 0u; c < step.chunks; c++) {
        half w[16];
        {{decode}}
        // Nobody multiplies what was there before.
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        for (uint i = 0u; i < 16u; i++) {
            uint e = c * 32u + h * 16u + i;
            xs[r * X_ROW + h * 16u + i] = e < step.k ? half(row[e] * scale) : half(0.0f);
            ws[(half_of_w * 16u + i) * W_ROW + n] = w[i];
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        for (uint q = 0u; q < 4u; q++) {
            metal::simdgroup_half8x8 a[4], b[4];
            for (uint i = 0u; i < 4u; i++) {
                metal::simdgroup_load(a[i], xs + (top + 8u * i) * X_ROW + 8u * q, X_ROW);
                metal::simdgroup_load(b[i], ws + 8u * q * W_ROW + left + 8u * i, W_ROW);
            }
            for (uint i = 0u; i < 4u; i++) {
                for (uint j = 0u; j < 4u; j++) {
                    metal::simdgroup_multiply_accumulate(sums[i][j], a[i], b[j], sums[i][j]);
                }
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    threadgroup float* results = (threadgroup float*)memory;
    for (uint i = 0u; i < 4u; i++) {
        for (uint j = 0u; j < 4u; j++) {
            metal::simdgroup_store(sums[i][j], results + (top + 8u * i) * 64u + left + 8u * j, 64u);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    device float* y = (device float*){{y}};
    for (uint at = index; at < ROWS * {{columns}}u; at += 128u) {
        uint m = at / {{columns}}u, i = n0 + at % {{columns}}u;
        if (m0 + m >= step.m || i >= step.seg[s].rows) continue;
        ulong to = ulong(m0 + m) * step.seg[s].stride + i;
        float result = results[m * 64u + at % {{columns}}u] * scales[m];
        {{finish}}
        y[step.seg[s].y + to] = result;
    }
}
