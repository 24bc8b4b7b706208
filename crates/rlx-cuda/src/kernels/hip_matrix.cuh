// Products of matrices by AMD's instructions for them, where the architecture has some: MFMA of CDNA (gfx90a, gfx942,
// gfx950), WMMA of RDNA 3 and 4 (gfx11, gfx120x). A product is d += a b, of 16 rows by 16 elements, and 16 elements by
// 16 columns; all lanes of a wavefront make it. Layouts are those of AMD's guides to its instruction sets and of its
// Matrix Instruction Calculator: lane l has row l % 16 of a, column l % 16 of b and column l % 16 of d. Of these it has
// LANE_ELEMENTS elements that lie side by side, and LANE_SUMS rows:
//
//             elements from           rows of d
//   CDNA      4 of 4 (l / 16) on      4 (l / 16) + i
//   RDNA 3    all 16                  2 i + l / 16
//   RDNA 4    8 of 8 (l / 16) on      8 (l / 16) + i
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
#define HAS_MATRIX 1
// CDNA multiplies floats, too.
#define HAS_MATRIX_OF_FLOATS 1
#elif defined(__GFX11__) || defined(__gfx1200__) || defined(__gfx1201__)
#define HAS_MATRIX 1
#endif

#ifdef HAS_MATRIX
namespace matrix {

__device__ __forceinline__ unsigned lane() { return threadIdx.x % RLX_WARP; }

#if defined(HAS_MATRIX_OF_FLOATS)
constexpr unsigned LANE_ELEMENTS = 4, LANE_SUMS = 4;
__device__ __forceinline__ unsigned first_element() { return lane() / 16 * 4; }
__device__ __forceinline__ unsigned row_of_sum(unsigned i) { return lane() / 16 * 4 + i; }
#elif defined(__GFX11__)
constexpr unsigned LANE_ELEMENTS = 16, LANE_SUMS = 8;
__device__ __forceinline__ unsigned first_element() { return 0; }
__device__ __forceinline__ unsigned row_of_sum(unsigned i) { return 2 * i + lane() / 16; }
#else
constexpr unsigned LANE_ELEMENTS = 8, LANE_SUMS = 8;
__device__ __forceinline__ unsigned first_element() { return lane() / 16 * 8; }
__device__ __forceinline__ unsigned row_of_sum(unsigned i) { return lane() / 16 * 8 + i; }
#endif

typedef float Sums __attribute__((vector_size(4 * LANE_SUMS)));
typedef _Float16 Halves __attribute__((vector_size(2 * LANE_ELEMENTS)));
typedef short Bf16s __attribute__((vector_size(2 * LANE_ELEMENTS)));
struct Floats {
    float of[LANE_ELEMENTS];
};

#if defined(HAS_MATRIX_OF_FLOATS)
__device__ __forceinline__ void multiply(Sums& d, Halves a, Halves b) {
    d = __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, d, 0, 0, 0);
}
__device__ __forceinline__ void multiply(Sums& d, Bf16s a, Bf16s b) {
    d = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, d, 0, 0, 0);
}
// Four products of 4 elements: element i of each lane is in the i-th, of both operands.
__device__ __forceinline__ void multiply(Sums& d, const Floats& a, const Floats& b) {
#pragma unroll
    for (unsigned i = 0; i < 4; i++) d = __builtin_amdgcn_mfma_f32_16x16x4f32(a.of[i], b.of[i], d, 0, 0, 0);
}
#elif defined(__GFX11__)
__device__ __forceinline__ void multiply(Sums& d, Halves a, Halves b) {
    d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, d);
}
__device__ __forceinline__ void multiply(Sums& d, Bf16s a, Bf16s b) {
    d = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, d);
}
#else
__device__ __forceinline__ void multiply(Sums& d, Halves a, Halves b) {
    d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, d);
}
__device__ __forceinline__ void multiply(Sums& d, Bf16s a, Bf16s b) {
    d = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, d);
}
#endif

// What halves are multiplied as, and how many of them a float has beside a half. The instructions of gfx90a take halves
// below 2^-14 as zeros: there they become floats.
#if defined(__gfx90a__)
typedef Floats OfHalves;
constexpr unsigned PARTS_BESIDE_HALVES = 1;
#else
typedef Halves OfHalves;
constexpr unsigned PARTS_BESIDE_HALVES = 2;
#endif
// What floats are multiplied as: themselves, or three numbers of 8 bits, which have all of a float's 24.
#if defined(HAS_MATRIX_OF_FLOATS)
typedef Floats OfFloats;
constexpr unsigned PARTS_OF_FLOATS = 1;
#else
typedef Bf16s OfFloats;
constexpr unsigned PARTS_OF_FLOATS = 3;
#endif

// Puts what an element's type has of x to place i, and takes it away from x.
__device__ __forceinline__ void take(Floats& to, unsigned i, float& x) {
    to.of[i] = x;
    x = 0.0f;
}
__device__ __forceinline__ void take(Halves& to, unsigned i, float& x) {
    _Float16 half = _Float16(x);
    to[i] = half;
    x -= float(half);
}
__device__ __forceinline__ void take(Bf16s& to, unsigned i, float& x) {
    unsigned bits = hip::of_bits<unsigned>(x) & 0xffff0000u;
    to[i] = short(bits >> 16);
    x -= hip::of_bits<float>(bits);
}

// Floats as the sums of N numbers of a narrower type: the first has the most of them.
template <class Operand, unsigned N>
__device__ __forceinline__ void split(float e[LANE_ELEMENTS], Operand (&parts)[N]) {
#pragma unroll
    for (unsigned i = 0; i < LANE_ELEMENTS; i++) {
#pragma unroll
        for (unsigned n = 0; n < N; n++) take(parts[n], i, e[i]);
    }
}

// A lane's elements, which lie side by side from a multiple of their size on.
template <class Operand>
__device__ __forceinline__ void load(Operand& to, const unsigned short* at) {
    __builtin_memcpy(&to, __builtin_assume_aligned(at, LANE_ELEMENTS > 4 ? 16 : 8), sizeof to);
}
// Halves as floats.
__device__ __forceinline__ void load(Floats& to, const unsigned short* at) {
    unsigned short halves[LANE_ELEMENTS];
    __builtin_memcpy(halves, __builtin_assume_aligned(at, LANE_ELEMENTS > 4 ? 16 : 8), sizeof halves);
#pragma unroll
    for (unsigned i = 0; i < LANE_ELEMENTS; i++) to.of[i] = hip::float_of_half(halves[i]);
}

// d += (a[0] + a[1] + ..) (b[0] + b[1] + ..), the smallest products first; those that are smaller than what the parts
// leave are left out.
template <class Operand, unsigned A, unsigned B>
__device__ __forceinline__ void multiply(Sums& d, const Operand (&a)[A], const Operand (&b)[B]) {
    constexpr unsigned most = A > B ? A : B;
#pragma unroll
    for (unsigned back = 1; back <= most; back++) {
#pragma unroll
        for (unsigned i = 0; i < A; i++) {
            if (i <= most - back && most - back - i < B) multiply(d, a[i], b[most - back - i]);
        }
    }
}

// A column of d as a lane has elements of a column of b.
__device__ __forceinline__ void as_elements(const Sums& d, float e[LANE_ELEMENTS]) {
#if defined(__GFX11__)
    // The other lane of the column has every other row.
    bool is_odd = lane() / 16 == 1;
#pragma unroll
    for (unsigned i = 0; i < LANE_SUMS; i++) {
        float own = d[i], other = hip::from_lane(own, hip::lane() ^ 16);
        e[2 * i] = is_odd ? other : own;
        e[2 * i + 1] = is_odd ? own : other;
    }
#else
#pragma unroll
    for (unsigned i = 0; i < LANE_SUMS; i++) e[i] = d[i];
#endif
}

// Keeps what is behind this line from being read before it. Operands of RDNA 3 take so many registers that those of
// several products at once would not fit.
__device__ __forceinline__ void go_on() {
#if defined(__GFX11__)
    __builtin_amdgcn_sched_barrier(0);
#endif
}

// A block of 256 threads has a tile of 64 rows by 64 columns, a wavefront 16 or 32 rows by 32 columns: GROUPS_OF_TILE
// times two products, whose sums a lane has one behind the other.
constexpr unsigned GROUPS_OF_TILE = RLX_WARP / 32;
__device__ __forceinline__ unsigned first_row_of_tile() { return threadIdx.x / RLX_WARP / 2 * 16 * GROUPS_OF_TILE; }
__device__ __forceinline__ unsigned first_column_of_tile() { return threadIdx.x / RLX_WARP % 2 * 32; }
__device__ __forceinline__ unsigned row_of_tile(unsigned i) {
    return first_row_of_tile() + i / LANE_SUMS / 2 * 16 + row_of_sum(i % LANE_SUMS);
}
__device__ __forceinline__ unsigned column_of_tile(unsigned i) {
    return first_column_of_tile() + i / LANE_SUMS % 2 * 16 + lane() % 16;
}
// Adds those of one step of a tile.
__device__ __forceinline__ void add_step(float sums[16], const Sums (&step)[GROUPS_OF_TILE][2]) {
#pragma unroll
    for (unsigned i = 0; i < 16; i++) sums[i] += step[i / LANE_SUMS / 2][i / LANE_SUMS % 2][i % LANE_SUMS];
}

// The largest number and the sum of the lanes that have a column.
__device__ __forceinline__ float most_of_column(float x) {
#pragma unroll
    for (unsigned by = 16; by < RLX_WARP; by *= 2) x = fmaxf(x, hip::from_lane(x, hip::lane() ^ by));
    return x;
}
__device__ __forceinline__ float sum_of_column(float x) {
#pragma unroll
    for (unsigned by = 16; by < RLX_WARP; by *= 2) x += hip::from_lane(x, hip::lane() ^ by);
    return x;
}

}  // namespace matrix
#endif
