// Decodes nothing: where there is no second weight.
struct Absent {
    static __device__ __forceinline__ void decode8(const u8*, u32, float*) {}
    static __device__ __forceinline__ float one(const u8*, u32) { return 0.0f; }
};
template <class F>
constexpr bool IS_THERE = true;
template <>
constexpr bool IS_THERE<Absent> = false;

// Adds the products of eight elements of a row of weights to the sums of Rows rows of x, which are `v` and add up to
// `totals`.
template <class F, u32 Rows, u32 Columns>
__device__ __forceinline__ void add_eight(const u8* __restrict__ row, u32 k, const float (*v)[8], const float* totals,
                                          float (*sums)[Columns], u32 c) {
    float e[8];
    if constexpr (IN_PARTS<F>) {
        float scale, minimum;
        F::parts8(row, k, e, scale, minimum);
#pragma unroll
        for (u32 m = 0; m < Rows; m++) {
            float sum = 0.0f;
#pragma unroll
            for (u32 j = 0; j < 8; j++) sum = fmaf(e[j], v[m][j], sum);
            sums[m][c] = fmaf(scale, sum, fmaf(minimum, totals[m], sums[m][c]));
        }
    } else {
        F::decode8(row, k, e);
#pragma unroll
        for (u32 m = 0; m < Rows; m++) {
#pragma unroll
            for (u32 j = 0; j < 8; j++) sums[m][c] = fmaf(e[j], v[m][j], sums[m][c]);
        }
    }
}

// Sums of the products of Rows rows of x, K long and one behind the other, with Columns rows of weights, and of as many
// of a second weight, which are `ups`. The lanes of Warps warps take 8 elements of k each in turn, and each has the
// sums of its own: a row of x is read once for all columns, and what is read waits for nothing. Columns past the last
// are the last. With NORM, x is multiplied by `norm` first, and `squares` gets the sums of its squares.
template <class F, class Up, u32 Rows, u32 Columns, u32 Warps>
__device__ __forceinline__ void add_products(const float* __restrict__ x, const float* __restrict__ norm,
                                             const u8* __restrict__ w, u32 row_bytes, const u8* __restrict__ up,
                                             u32 up_row_bytes, u32 last, u32 lane, float (*sums)[Columns],
                                             float (*ups)[Columns], float* squares) {
#pragma unroll 2
    for (u32 k = lane * 8; k + 8 <= K; k += Warps * WARP * 8) {
        float v[Rows][8];
#pragma unroll
        for (u32 m = 0; m < Rows; m++) {
#if K % 4 == 0
            const float4* at = (const float4*)(x + size_t(m) * K + k);
            float4 a = at[0], b = at[1];
            v[m][0] = a.x, v[m][1] = a.y, v[m][2] = a.z, v[m][3] = a.w;
            v[m][4] = b.x, v[m][5] = b.y, v[m][6] = b.z, v[m][7] = b.w;
#else
            for (u32 j = 0; j < 8; j++) v[m][j] = x[size_t(m) * K + k + j];
#endif
#ifdef NORM
            float by[8];
#if K % 4 == 0
            const float4* weights = (const float4*)(norm + k);
            float4 c = weights[0], d = weights[1];
            by[0] = c.x, by[1] = c.y, by[2] = c.z, by[3] = c.w;
            by[4] = d.x, by[5] = d.y, by[6] = d.z, by[7] = d.w;
#else
            for (u32 j = 0; j < 8; j++) by[j] = norm[k + j];
#endif
#pragma unroll
            for (u32 j = 0; j < 8; j++) {
                squares[m] = fmaf(v[m][j], v[m][j], squares[m]);
                v[m][j] *= by[j];
            }
#endif
        }
        float totals[Rows];
#pragma unroll
        for (u32 m = 0; m < Rows; m++) {
            totals[m] = 0.0f;
#pragma unroll
            for (u32 j = 0; j < 8; j++) totals[m] += v[m][j];
        }
#pragma unroll
        for (u32 c = 0; c < Columns; c++) {
            add_eight<F, Rows, Columns>(w + size_t(min(c, last)) * row_bytes, k, v, totals, sums, c);
            if constexpr (IS_THERE<Up>) {
                add_eight<Up, Rows, Columns>(up + size_t(min(c, last)) * up_row_bytes, k, v, totals, ups, c);
            }
        }
    }
#if K % 8 != 0
    // The last elements: rows of blocks have none.
    u32 k = K / 8 * 8 + lane;
    if (k >= K) return;
    for (u32 m = 0; m < Rows; m++) {
        float v = x[size_t(m) * K + k];
#ifdef NORM
        squares[m] = fmaf(v, v, squares[m]);
        v *= norm[k];
#endif
        for (u32 c = 0; c < Columns; c++) {
            size_t row = min(c, last);
            sums[m][c] = fmaf(F::one(w + row * row_bytes, k), v, sums[m][c]);
            if (IS_THERE<Up>) ups[m][c] = fmaf(Up::one(up + row * up_row_bytes, k), v, ups[m][c]);
        }
    }
#endif
}
