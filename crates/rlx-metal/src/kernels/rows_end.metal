    if (NORM) {
        for (uint mask = 1u; mask < LANES; mask *= 2u) squares += metal::simd_shuffle_xor(squares, mask);
        unscale *= metal::rsqrt(squares / float(step.k) + step.eps);
    }
    if (own == 0u) scales[r] = unscale;
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
