// interpolate y[n, c, i] = sum over neighbours j of i, along up to three axes, of weight(j, i) * x[n, c, j]
// shapes      x T[N, C, FROM..]    y T[N, C, TO..]
// bytes       y's once, x's once for each result that they are in, from a cache
// launch      a thread is a result
// numerics    nearest is exact; places are fractions of integers, weights and sums f32, rounded once
#if IS_NEAREST
KERNEL(interpolate)(const T* __restrict__ x, T* __restrict__ y NUMBERS) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= N) return;
    u32 rest = i, at[3];
#pragma unroll
    for (u32 axis = 2; axis < 3; axis--) {
        at[axis] = rest % TO(axis) * FROM(axis) / TO(axis);
        rest /= TO(axis);
    }
    y[i] = x[((size_t(rest) * FROM(0) + at[0]) * FROM(1) + at[1]) * FROM(2) + at[2]];
}
#else
// The kernel at a distance: Keys' cubic one (IEEE ASSP 29, 1981), or a triangle.
__device__ __forceinline__ float kernel_at(float d) {
#if IS_CUBIC
    const float a = IS_WIDENED ? -0.5f : -0.75f;
    float near = ((a + 2.0f) * d - (a + 3.0f)) * d * d + 1.0f;
    float far = ((a * d - 5.0f * a) * d + 8.0f * a) * d - 4.0f * a;
    return d <= 1.0f ? near : d < 2.0f ? far : 0.0f;
#else
    return fmaxf(1.0f - d, 0.0f);
#endif
}

// Neighbours `first` to `first + count - 1` of result i of an axis of `from` elements that become `to`.
struct Neighbours {
    int from, first, count;
    float fraction;
    int centre, step;
    float wide;
    __device__ __forceinline__ Neighbours(u32 i, u32 from_size, u32 to_size) : from(int(from_size)) {
        int a = int(from_size), b = int(to_size);
#if IS_WIDENED
        int reach = max(a, b) * (IS_CUBIC ? 4 : 2);
        centre = (2 * int(i) + 1) * a + b;
        step = 2 * b;
        wide = float(2 * max(a, b));
        first = max(centre - reach, 0) / step;
        count = min((centre + reach) / step, a) - first;
#else
#if IS_ALIGNED
        int place = int(i) * (a - 1), parts = max(b - 1, 1);
#else
        int place = (2 * int(i) + 1) * a - b, parts = 2 * b;
#endif
        if (!IS_CUBIC) place = max(place, 0);
        // A place is before the first element by at most one half.
        int floor = place < 0 ? -1 : place / parts;
        fraction = float(place - floor * parts) / float(parts);
        first = floor - (IS_CUBIC ? 1 : 0);
        count = IS_CUBIC ? 4 : 2;
#endif
    }
    __device__ __forceinline__ float weight(int n) const {
#if IS_WIDENED
        return kernel_at(fabsf(float((first + n) * step + step - centre)) / wide);
#else
        return kernel_at(fabsf(float(n - (IS_CUBIC ? 1 : 0)) - fraction));
#endif
    }
    __device__ __forceinline__ u32 at(int n) const { return u32(min(max(first + n, 0), from - 1)); }
};

KERNEL(interpolate)(const T* __restrict__ x, T* __restrict__ y NUMBERS) {
    wait_for_previous();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= N) return;
    u32 rest = i / TO(2) / TO(1) / TO(0);
    Neighbours a(i / TO(2) / TO(1) % TO(0), FROM(0), TO(0)), b(i / TO(2) % TO(1), FROM(1), TO(1));
    Neighbours c(i % TO(2), FROM(2), TO(2));
    // An axis of one element has that one alone.
    if (FROM(0) == 1 && TO(0) == 1) a.first = 0, a.count = 1, a.fraction = 0.0f;
    if (FROM(1) == 1 && TO(1) == 1) b.first = 0, b.count = 1, b.fraction = 0.0f;
    x += size_t(rest) * FROM(0) * FROM(1) * FROM(2);
    float sum = 0.0f, total = 0.0f;
    for (int j = 0; j < a.count; j++) {
        float of_a = a.count == 1 && FROM(0) == 1 ? 1.0f : a.weight(j);
        for (int k = 0; k < b.count; k++) {
            float of_b = of_a * (b.count == 1 && FROM(1) == 1 ? 1.0f : b.weight(k));
            const T* row = x + (size_t(a.at(j)) * FROM(1) + b.at(k)) * FROM(2);
            for (int l = 0; l < c.count; l++) {
                float w = of_b * c.weight(l);
                sum = fmaf(w, value_of(row[c.at(l)]), sum);
                total += w;
            }
        }
    }
    y[i] = rounded_to<T>(IS_WIDENED ? sum / total : sum);
}
#endif
