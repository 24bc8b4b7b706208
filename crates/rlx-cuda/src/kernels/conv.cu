// conv        y[n, o, p] = bias[o] + sum over c, t of x[n, c, p * stride + t * dilation - low] * w[o, c, t]
// shapes      x T[N, CHANNELS, ..]    w T[FILTERS, DEPTH, ..], TAPS of each    bias T[FILTERS]    y T[N, FILTERS, ..]
// bytes       w's for each 64 places of all images, x's once a tap for each 64 filters (from a cache), y's once
// launch      a block of 256 threads is a tile of 64 filters of a group by 64 places
// numerics    f32, or what tensor cores make as near to it (tile_sums.cuh); k is c, then t; rounded once
// The elements of x under the taps of 64 places: a thread has one place and eight of k.
struct Columns {
    const T* image;
    Place place_in;
    bool is_column;
    __device__ __forceinline__ Columns(const T* x, u32 group, u32 column0) {
        u32 column = column0 + threadIdx.x % 64;
        is_column = column < COLUMNS;
        column = min(column, COLUMNS - 1);
        image = x + (size_t(column / PLACES) * CHANNELS + group * DEPTH) * PLANE;
        place_in = place_of(column % PLACES);
    }
    __device__ __forceinline__ void fetch(u32 k0, float e[8]) const {
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            u32 k = k0 + threadIdx.x / 64 * 8 + j, at;
            bool is_there = is_inside(place_in, k % TAPS, at) && is_column && k < K;
            e[j] = is_there ? value_of(image[size_t(k / TAPS) * PLANE + at]) : 0.0f;
        }
    }
    __device__ __forceinline__ void put(Tile& tile, const float e[8]) const {
        u32 k = threadIdx.x / 64 * 8;
#pragma unroll
        for (u32 j = 0; j < 8; j++) tile[k + j][place(k, threadIdx.x % 64)] = e[j];
    }
};

KERNEL(conv)(const T* __restrict__ x, const T* __restrict__ w, T* __restrict__ y
#ifdef BIAS
             , const T* __restrict__ bias
#endif
) {
    wait_for_previous();
    // Blocks of the same places follow each other: what they read of x is in a cache.
    const u32 tiles_m = (OWN + 63) / 64, tiles_n = (COLUMNS + 63) / 64;
    u32 group = blockIdx.x / (tiles_m * tiles_n);
    u32 m0 = blockIdx.x % tiles_m * 64, n0 = blockIdx.x / tiles_m % tiles_n * 64;
    float sums[16] = {};
    product_tile(Strided<Filters>(w + size_t(group) * OWN * K, m0), Columns(x, group, n0), sums);
#pragma unroll
    for (u32 i = 0; i < 16; i++) {
        u32 m = m0 + row_of<IS_SHORT>(i), n = n0 + column_of<IS_SHORT>(i), filter = group * OWN + m;
        if (m >= OWN || n >= COLUMNS) continue;
#ifdef BIAS
        float sum = sums[i] + value_of(bias[filter]);
#else
        float sum = sums[i];
#endif
        y[(size_t(n / PLACES) * FILTERS + filter) * PLACES + n % PLACES] = rounded_to<T>(sum);
    }
}
