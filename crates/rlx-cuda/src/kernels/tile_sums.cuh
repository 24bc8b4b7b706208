// Sums of a tile of 64 rows of x by 64 columns: 16 of a thread of 256. A step of a tile is 32 elements of k.
#define STEP 32
// Rows that are 8 apart begin 8 banks of shared memory after each other.
typedef float Tile[STEP][72];

// Where column c of row k stands. The 8 rows that a thread brings begin at 0, 8, 16 or 24: a warp's writes of one of
// them, and its reads, meet no bank twice.
__device__ __forceinline__ u32 place(u32 k, u32 c) { return c ^ (k & 24u); }

// Types of weights and elements whose numbers have no more than 11 significant bits.
struct F16;
struct Bf16;
template <class F>
struct Significand { static const bool is_short = false; };
template <>
struct Significand<F16> { static const bool is_short = true; };
template <>
struct Significand<Bf16> { static const bool is_short = true; };

#ifdef HAS_TF32
// Tensor cores take numbers of 11 significant bits and add in f32. A float is the sum of two of those but for its last
// two bits: x y = high high + high low + low high, some 2^-21 of it apart. Tensor cores do not round their sums to the
// nearest, so each has no more than a step of k. A warp has 16 rows by 32 columns. Where x is of 11 bits, too
// (IsShortX), one product is exact.

// Row and column of a thread's i-th sum.
template <bool IsShortX = false>
__device__ __forceinline__ u32 row_of(u32 i) { return threadIdx.x / 64 * 16 + threadIdx.x % 32 / 4 + i % 4 / 2 * 8; }
template <bool IsShortX = false>
__device__ __forceinline__ u32 column_of(u32 i) {
    return threadIdx.x / 32 % 2 * 32 + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
}

template <class F, bool IsShortX = false>
__device__ __forceinline__ void add_tile(const Tile& xs, const Tile& ws, float sums[16]) {
    u32 r = threadIdx.x / 64 * 16 + threadIdx.x % 32 / 4, c = threadIdx.x / 32 % 2 * 32 + threadIdx.x % 32 / 4;
    u32 t = threadIdx.x % 4;
    float step[4][4] = {};
#pragma unroll
    for (u32 k = 0; k < STEP; k += 8) {
        float a[4], high[4], low[4];
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            a[i] = xs[k + t + i / 2 * 4][place(k, r + i % 2 * 8)];
            high[i] = IsShortX ? a[i] : to_tf32(a[i]);
            low[i] = IsShortX ? 0.0f : to_tf32(a[i] - high[i]);
        }
#pragma unroll
        for (u32 n = 0; n < 4; n++) {
            float b[2], b_high[2], b_low[2];
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                b[i] = ws[k + t + i * 4][place(k, c + n * 8)];
                b_high[i] = Significand<F>::is_short ? b[i] : to_tf32(b[i]);
                b_low[i] = Significand<F>::is_short ? 0.0f : to_tf32(b[i] - b_high[i]);
            }
            if (!IsShortX) multiply(step[n], low, b_high);
            if (!Significand<F>::is_short) multiply(step[n], high, b_low);
            multiply(step[n], high, b_high);
        }
    }
#pragma unroll
    for (u32 i = 0; i < 16; i++) sums[i] += step[i / 4][i % 4];
}
#else
// Each thread has 4 rows by 4 columns, sums in order of k.
struct Blocks {
    static __device__ __forceinline__ u32 row_of(u32 i) { return threadIdx.x / 16 * 4 + i / 4; }
    static __device__ __forceinline__ u32 column_of(u32 i) { return threadIdx.x % 16 * 4 + i % 4; }
    static __device__ __forceinline__ void add(const Tile& xs, const Tile& ws, float sums[16]) {
        u32 r = row_of(0), c = column_of(0);
#pragma unroll 8
        for (u32 k = 0; k < STEP; k++) {
            float4 a = *(const float4*)&xs[k][place(k, r)], b = *(const float4*)&ws[k][place(k, c)];
            float u[4] = {a.x, a.y, a.z, a.w}, v[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
            for (u32 i = 0; i < 16; i++) sums[i] = fmaf(u[i / 4], v[i % 4], sums[i]);
        }
    }
};
template <class F, bool IsShortX>
struct Sums16 {
    typedef Blocks Type;
};

#ifdef HAS_MATRIX
// AMD's products of matrices (hip_matrix.cuh), x as their rows and weights as their columns. Sums leave them after a
// step of k, as with tensor cores. Floats are floats on CDNA; RDNA has none, and three parts of each, six products,
// would take longer than `fmaf`.
template <class Operand>
struct ByMatrix {
    static __device__ __forceinline__ u32 row_of(u32 i) { return matrix::row_of_tile(i); }
    static __device__ __forceinline__ u32 column_of(u32 i) { return matrix::column_of_tile(i); }
    // What a lane has of 16 rows, or columns, from `first` on, and of 16 elements from k on.
    static __device__ __forceinline__ void fetch(Operand (&to)[1], const Tile& from, u32 first, u32 k) {
        float e[matrix::LANE_ELEMENTS];
        u32 k0 = k + matrix::first_element();
#pragma unroll
        for (u32 i = 0; i < matrix::LANE_ELEMENTS; i++) e[i] = from[k0 + i][place(k0 + i, first + matrix::lane() % 16)];
        matrix::split(e, to);
    }
    static __device__ __forceinline__ void add(const Tile& xs, const Tile& ws, float sums[16]) {
        matrix::Sums step[matrix::GROUPS_OF_TILE][2] = {};
        u32 row = matrix::first_row_of_tile(), column = matrix::first_column_of_tile();
#pragma unroll
        for (u32 k = 0; k < STEP; k += 16) {
            Operand columns[2][1];
#pragma unroll
            for (u32 c = 0; c < 2; c++) fetch(columns[c], ws, column + c * 16, k);
#pragma unroll
            for (u32 g = 0; g < matrix::GROUPS_OF_TILE; g++) {
                Operand rows[1];
                fetch(rows, xs, row + g * 16, k);
#pragma unroll
                for (u32 c = 0; c < 2; c++) matrix::multiply(step[g][c], rows, columns[c]);
            }
        }
        matrix::add_step(sums, step);
    }
};
#ifdef HAS_MATRIX_OF_FLOATS
template <class F>
struct Sums16<F, false> {
    typedef ByMatrix<matrix::Floats> Type;
};
#endif
// Elements of x are of the weights' type where they are short.
template <>
struct Sums16<F16, true> {
    typedef ByMatrix<matrix::OfHalves> Type;
};
template <>
struct Sums16<Bf16, true> {
    typedef ByMatrix<matrix::Bf16s> Type;
};
#endif

// Row and column of a thread's i-th sum.
template <bool IsShortX = false>
__device__ __forceinline__ u32 row_of(u32 i) {
    return Sums16<F16, IsShortX>::Type::row_of(i);
}
template <bool IsShortX = false>
__device__ __forceinline__ u32 column_of(u32 i) {
    return Sums16<F16, IsShortX>::Type::column_of(i);
}

template <class F, bool IsShortX = false>
__device__ __forceinline__ void add_tile(const Tile& xs, const Tile& ws, float sums[16]) {
    Sums16<F, IsShortX>::Type::add(xs, ws, sums);
}
#endif
