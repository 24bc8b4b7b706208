// matmul      y_s[m, n] = f(sum_k x[m, k] W_s[n, k] + b_s[n]) (+ residual[m, n]); with a norm x is
//             x * w / sqrt(mean(x^2) + eps); with glu y[m, n] = f(y_0[m, n]) * y_1[m, n]
// shapes      x f32[m, k]    W_s [rows_s, k], any of the formats above    y_s f32[m, rows_s]
// bytes       weights once for {{rows}} rows of x; x once for 64 rows of a weight (half: twice, first for the largest)
// launch      a threadgroup of 128 makes {{rows}} x 64 results (glu: {{rows}} x 32 of both weights), a SIMD group half
//             of the rows and half of the columns as matrices of 8 x 8; tiles whose rows are all at or past ctl.len are
//             not made
// numerics    float: products and sums f32. half: x times a power of two that brings a row's largest element below 256,
//             and weights, rounded to f16; products and sums f32
{{begin}}
    typedef {{number}} number_t;
    typedef metal::simdgroup_{{number}}8x8 number8x8_t;
    // Matrices of a SIMD group above each other; four are side by side.
    constexpr uint HIGH = ROWS / 16u;
    // Numbers of a row of x in a tile, with eight more that keep rows in different banks; and of one k of the weights.
    constexpr uint X_ROW = 40u, W_ROW = 64u;
    threadgroup number_t* xs = (threadgroup number_t*)memory;
    threadgroup number_t* ws = xs + ROWS * X_ROW;
    uint top = ROWS / 2u * (simd / 2u), left = 32u * (simd % 2u);
    metal::simdgroup_float8x8 sums[HIGH][4];
    for (uint i = 0u; i < HIGH; i++) {
        for (uint j = 0u; j < 4u; j++) sums[i][j] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    for (uint c = 0u; c < step.chunks; c++) {
        metal::float4 w[4], x[EACH / 4u];
        {{decode}}
        for (uint i = 0u; i < EACH / 4u; i++) {
            x[i] = four_of_x(row, norm, c * 32u + own + i * 4u, step.k, squares) * metal::float4(scale);
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
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    for (uint i = 0u; i < HIGH; i++) {
        for (uint j = 0u; j < 4u; j++) {
            metal::simdgroup_store(sums[i][j], results + (top + 8u * i) * 64u + left + 8u * j, 64u);
        }
    }
{{end}}
