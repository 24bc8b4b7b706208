// columns     h[p, k] + l[p, k] / 2048 = x under tap k of place p / scales[image]: rows for a product of halves
// shapes      x T[N, CHANNELS, ..]    scales f32[N]    halves f16[PARTS, CHUNK, K], h before l, places from FIRST on
// bytes       x once a tap (from a cache), 2*PARTS*CHUNK*K written
// launch      a block of 256 threads is 64 places by 64 of k: read side by side along places, written along k
// numerics    as halves.cu has it, of an image's largest number in place of a row's
typedef u16 Rows[64][64 + 8];

KERNEL(columns)(const T* __restrict__ x, const float* __restrict__ scales, u16* __restrict__ halves NUMBERS) {
    wait_for_previous();
    __shared__ __align__(16) Rows parts[PARTS];
    u32 own = threadIdx.x % 64, column = FIRST + blockIdx.x * 64 + own, k0 = blockIdx.y * 64;
    bool is_column = column < COLUMNS;
    column = min(column, COLUMNS - 1);
    Place from = place_of(column % PLACES);
    const T* image = x + size_t(column / PLACES) * CHANNELS * PLANE;
    float inverse = __uint_as_float((254u << 23) - __float_as_uint(scales[column / PLACES]));
#pragma unroll
    for (u32 j = 0; j < 16; j += 2) {
        u32 first = threadIdx.x / 64 * 16 + j, high = 0, low = 0;
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            u32 k = k0 + first + i, at;
            bool is_there = is_inside(from, k % TAPS, at) && is_column && k < K;
            float v = is_there ? value_of(image[size_t(k / TAPS) * PLANE + at]) * inverse : 0.0f;
            u16 part = half_of_float(v);
            high |= u32(part) << (16 * i);
            low |= u32(half_of_float((v - float_of_half(part)) * 2048.0f)) << (16 * i);
        }
        *(u32*)&parts[0][own][first] = high;
#if PARTS == 2
        *(u32*)&parts[1][own][first] = low;
#endif
    }
    __syncthreads();
#pragma unroll
    for (u32 i = threadIdx.x; i < 64 * 8; i += 256) {
        u32 row = i / 8, k = i % 8 * 8;
        if (k0 + k >= K) continue;
        u16* to = halves + (size_t(blockIdx.x) * 64 + row) * K + k0 + k;
#pragma unroll
        for (u32 p = 0; p < PARTS; p++) *(uint4*)(to + size_t(p) * CHUNK * K) = *(const uint4*)&parts[p][row][k];
    }
}
