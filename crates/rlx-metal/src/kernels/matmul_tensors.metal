// matmul      y_s[m, n] = f(sum_k x[m, k] W_s[n, k] + b_s[n]) (+ residual[m, n]); with a norm x is
//             x * w / sqrt(mean(x^2) + eps); with glu y[m, n] = f(y_0[m, n]) * y_1[m, n]
// shapes      x f32[m, k]    W_s [rows_s, k], of the formats above    y_s f32[m, rows_s]
// bytes       weights once for {{rows}} rows of x; x twice for 64 rows of a weight, first for the largest
// launch      a threadgroup of 128 makes {{rows}} x 64 results (glu: {{rows}} x 32 of both weights) by Metal 4's tensor
//             operations, which all four SIMD groups do together; tiles whose rows are all at or past ctl.len are not
//             made
// numerics    x times a power of two that brings a row's largest element below 256. half: x and weights rounded to f16,
//             products of f16, sums f32. float: x as two halves, of 22 bits together, and the bytes of weights, which
//             f16 has exactly (as it has weights of f16); sums of {{group}} products f32, which scales and offsets of
//             f32 meet. Where weights have offsets, an infinite x makes NaN: two products of it have two signs
typedef metal::tensor<threadgroup half, metal::dextents<int32_t, 2>, metal::tensor_inline> Halves;
constexpr constant bool EXACT = {{is_exact}};
constexpr constant bool OFFSETS = {{has_offsets}};    // whether scales have offsets beside them
constexpr constant uint GROUP = {{group}}u;           // weights that share a scale
constexpr constant uint GROUPS = 32u / GROUP;
{{begin}}
    // Rows of 32 elements of x, in EXACT what its first halves leave, and of weights.
    threadgroup half* xs = (threadgroup half*)memory;
    threadgroup half* rest = xs + ROWS * 32u;
    threadgroup half* ws = EXACT ? rest + ROWS * 32u : rest;
    // Of each group: sums of rows of x, and scales and offsets of rows of weights.
    threadgroup float* x_sums = scales + ROWS;
    threadgroup metal::float2* by = (threadgroup metal::float2*)(x_sums + GROUPS * ROWS);

    constexpr auto what = mpp::tensor_ops::matmul2d_descriptor(
        int(ROWS), 64, int(GROUP), false, true, true,
        mpp::tensor_ops::matmul2d_descriptor::mode::multiply_accumulate);
    mpp::tensor_ops::matmul2d<what, metal::execution_simdgroups<4>> multiply;
    auto sums = multiply.get_destination_cooperative_tensor<Halves, Halves, float>();
    auto part = multiply.get_destination_cooperative_tensor<Halves, Halves, float>();
    #pragma clang loop unroll(full)
    for (ushort i = 0; i < sums.get_capacity(); i++) {
        if (sums.is_valid_element(i)) sums[i] = 0.0f;
    }
    for (uint c = 0u; c < step.chunks; c++) {
        metal::float4 w[4], x[EACH / 4u];
        metal::float2 w_by = metal::float2(1.0f, 0.0f);
        float x_sum = 0.0f;
        {{decode}}
        for (uint i = 0u; i < EACH / 4u; i++) {
            x[i] = four_of_x(row, norm, c * 32u + own + i * 4u, step.k, squares) * metal::float4(scale);
            x_sum += sum_of(x[i]);
        }
        if (OFFSETS) {
            for (uint mask = 1u; mask < LANES / GROUPS; mask *= 2u) x_sum += metal::simd_shuffle_xor(x_sum, mask);
        }
        // Nobody multiplies what was there before.
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        for (uint i = 0u; i < EACH / 4u; i++) {
            metal::half4 high = metal::half4(x[i]);
            *(threadgroup metal::half4*)(xs + r * 32u + own + i * 4u) = high;
            // What an infinity leaves is no NaN.
            metal::float4 left = metal::select(x[i] - metal::float4(high), metal::float4(0.0f), metal::isinf(x[i]));
            if (EXACT) *(threadgroup metal::half4*)(rest + r * 32u + own + i * 4u) = metal::half4(left);
        }
        for (uint i = 0u; i < 4u; i++) {
            *(threadgroup metal::half4*)(ws + n * 32u + half_of_w * 16u + i * 4u) = metal::half4(w[i]);
        }
        if (EXACT) {
            if (half_of_w < GROUPS) by[half_of_w * 64u + n] = w_by;
            if (OFFSETS && own % GROUP == 0u) x_sums[own / GROUP * ROWS + r] = x_sum;
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        for (uint g = 0u; g < GROUPS; g++) {
            auto x_size = metal::dextents<int32_t, 2>(int32_t(GROUP), int32_t(ROWS));
            auto w_size = metal::dextents<int32_t, 2>(int32_t(GROUP), 64);
            metal::array<int32_t, 2> strides = {1, 32};
            Halves high(xs + g * GROUP, x_size, strides), low(rest + g * GROUP, x_size, strides);
            Halves weights(ws + g * GROUP, w_size, strides);
            if (!EXACT) {
                multiply.run(high, weights, sums);
                continue;
            }
            #pragma clang loop unroll(full)
            for (ushort i = 0; i < part.get_capacity(); i++) {
                if (part.is_valid_element(i)) part[i] = 0.0f;
            }
            multiply.run(high, weights, part);
            multiply.run(low, weights, part);
            #pragma clang loop unroll(full)
            for (ushort i = 0; i < part.get_capacity(); i++) {
                if (!part.is_valid_element(i)) continue;
                auto at = part.get_multidimensional_index(i);
                metal::float2 of = by[g * 64u + uint(at[0])];
                sums[i] = metal::fma(part[i], of.x, sums[i]);
                if (OFFSETS) sums[i] = metal::fma(x_sums[g * ROWS + uint(at[1])], of.y, sums[i]);
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    #pragma clang loop unroll(full)
    for (ushort i = 0; i < sums.get_capacity(); i++) {
        if (!sums.is_valid_element(i)) continue;
        auto at = sums.get_multidimensional_index(i);
        results[uint(at[1]) * 64u + uint(at[0])] = sums[i];
    }
{{end}}
