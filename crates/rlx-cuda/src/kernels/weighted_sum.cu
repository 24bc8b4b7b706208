// weighted_sum y[m, c] = the sum of shares[m, j] * x[m, j, c] over the EACH rows of m
// shapes      x TYPE[rows, EACH, COLUMNS]    shares SHARE[rows, EACH]    y TYPE[rows, COLUMNS]
// bytes       x's and y's
// launch      blocks of 256 threads; a thread is an element of y
// numerics    f32, or f64 of f64, in the order of j, rounded once
KERNEL(weighted_sum)(const TYPE* __restrict__ x, const SHARE* __restrict__ shares CTL_PARAMETER,
                     TYPE* __restrict__ y NUMBERS) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= COUNT) return;
    u32 row = BY_COLUMNS(i);
    if (IS_LATE(row)) return;
    shares += size_t(row) * EACH;
    x += size_t(row) * EACH * COLUMNS + (i - row * COLUMNS);
    VALUE sum = 0;
    for (u32 j = 0; j < EACH; j++) sum += VALUE(value_of(shares[j])) * value_of(x[size_t(j) * COLUMNS]);
    y[i] = rounded_to<TYPE>(sum);
}
