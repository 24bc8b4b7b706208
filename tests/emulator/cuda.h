// The words of CUDA C that our kernels use, on top of `block.h`: a file of kernels compiles as C++ and runs on a CPU.
//
// Arithmetic is the GPU's where its result is defined (fma rounds once, dp4a, conversions to half round to nearest
// even); functions that a GPU approximates are the CPU's exact ones.
#pragma once
#include "block.h"
// C's functions alone: the header of C++ takes the compiler longer than most kernels.
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS

#define RLX_EMULATOR 1
#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __constant__ static const
// Blocks run one after the other, so that one of them has the variable.
#define __shared__ static

#define threadIdx (emulator::block->now->index)
#define blockIdx (emulator::block->index)
#define blockDim (emulator::block->launch.block)
#define gridDim (emulator::block->launch.grid)

#define __syncthreads() emulator::barrier(__LINE__)
#define __syncwarp(...) ((void)emulator::exchange(emulator::mask_of(__VA_ARGS__), 0, __LINE__))
#define __shfl_sync(mask, value, lane) emulator::from_lane(mask, value, unsigned(lane) % RLX_WARP, __LINE__)
#define __shfl_xor_sync(mask, value, by) \
    emulator::from_lane(mask, value, (emulator::lane() ^ unsigned(by)) % RLX_WARP, __LINE__)
#define __shfl_down_sync(mask, value, by) emulator::down(mask, value, unsigned(by), __LINE__)
#define __ballot_sync(mask, yes) emulator::ballot(mask, yes, __LINE__)
#define __any_sync(mask, yes) (emulator::ballot(mask, yes, __LINE__) != 0)
#define __all_sync(mask, yes) (emulator::ballot(mask, !(yes), __LINE__) == 0)

namespace emulator {

constexpr uint64_t EVERY_LANE = RLX_WARP == 64 ? ~0ull : (1ull << RLX_WARP % 64) - 1;

inline uint64_t mask_of(uint64_t mask = EVERY_LANE) { return mask; }

inline unsigned lane() { return block->now->number % RLX_WARP; }

template <class T>
inline uint64_t bits_of(T x) {
    static_assert(sizeof(T) <= 8, "an exchange has 8 bytes a lane");
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof(T));
    return bits;
}

template <class T>
inline T of_bits(uint64_t bits) {
    T x;
    memcpy(&x, &bits, sizeof(T));
    return x;
}

template <class T>
inline T from_lane(uint64_t mask, T x, unsigned lane, int line) {
    return of_bits<T>(of_lane(exchange(mask, bits_of(x), line), mask, lane));
}

/// Lanes at the end of a warp keep what they have.
template <class T>
inline T down(uint64_t mask, T x, unsigned by, int line) {
    const uint64_t* seen = exchange(mask, bits_of(x), line);
    unsigned from = lane() + by;
    return from < RLX_WARP ? of_bits<T>(of_lane(seen, mask, from)) : x;
}

inline uint64_t ballot(uint64_t mask, bool yes, int line) {
    const uint64_t* seen = exchange(mask, yes, line);
    uint64_t all = 0;
    for (unsigned i = 0; i < RLX_WARP; i++) {
        if (mask >> i & 1) all |= seen[i] << i;
    }
    return all;
}

/// What a lane brings to a product of matrices: words that the product reads as what it takes.
struct Fragments {
    uint32_t a[4], b[2];
};
/// Of each thread, for a product and the next one: no lane is more than one ahead of its warp.
inline Fragments fragments[2][MOST_THREADS];
inline unsigned char products[MOST_THREADS];

/// Gives this lane's words to a product of its warp; those of all lanes, once they are there.
RLX_UNSEEN inline const Fragments* of_warp(const void* a, const void* b, int line) {
    unsigned self = block->now->number, first = self - self % RLX_WARP;
    Fragments* all = fragments[++products[self] % 2] + first;
    memcpy(all[lane()].a, a, sizeof(all->a));
    memcpy(all[lane()].b, b, sizeof(all->b));
    exchange(EVERY_LANE, products[self], line);
    return all;
}

/// The warp's `mma.sync.m16n8k8` of tf32: lane 4 g + t has rows g and g + 8 of a at k = t and t + 4, column g of b at the
/// same k, and columns 2 t and 2 t + 1 of rows g and g + 8 of d.
RLX_UNSEEN inline void mma_m16n8k8(float d[4], const float a[4], const float b[2], int line) {
    const Fragments* all = of_warp(a, b, line);
    unsigned g = lane() / 4, t = lane() % 4;
    for (unsigned i = 0; i < 4; i++) {
        double sum = d[i];
        for (unsigned k = 0; k < 8; k++) {
            uint32_t x = all[g * 4 + k % 4].a[i / 2 + k / 4 * 2], w = all[(2 * t + i % 2) * 4 + k % 4].b[k / 4];
            sum += double(of_bits<float>(x)) * double(of_bits<float>(w));
        }
        d[i] = float(sum);
    }
}

/// The warp's `mma.sync.m16n8k16` of f16, or of bf16: as above, but a word has two elements of k, 2 t and 2 t + 1, or those 8 further.
RLX_UNSEEN inline void mma_m16n8k16(float d[4], const uint32_t a[4], const uint32_t b[2], bool is_bf16, int line) {
    const Fragments* all = of_warp(a, b, line);
    unsigned g = lane() / 4, t = lane() % 4;
    auto half = [is_bf16](uint32_t word, unsigned k) {
        uint32_t bits = word >> 16 * (k % 2) & 0xffff;
        return is_bf16 ? double(of_bits<float>(bits << 16)) : double(of_bits<_Float16>(bits));
    };
    for (unsigned i = 0; i < 4; i++) {
        double sum = d[i];
        for (unsigned k = 0; k < 16; k++) {
            uint32_t x = all[g * 4 + k % 8 / 2].a[i / 2 + k / 8 * 2], w = all[(2 * t + i % 2) * 4 + k % 8 / 2].b[k / 8];
            sum += half(x, k) * half(w, k);
        }
        d[i] = float(sum);
    }
}

/// The warp's `mma.sync.m16n8k32` of bytes with a sign: as above, but a word has four elements of k, from 4 t on or 16
/// further, and sums are integers.
RLX_UNSEEN inline void mma_m16n8k32(int d[4], const uint32_t a[4], const uint32_t b[2], int line) {
    const Fragments* all = of_warp(a, b, line);
    unsigned g = lane() / 4, t = lane() % 4;
    auto byte = [](uint32_t word, unsigned k) { return int(int8_t(word >> 8 * (k % 4))); };
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned k = 0; k < 32; k++) {
            uint32_t x = all[g * 4 + k % 16 / 4].a[i / 2 + k / 16 * 2];
            uint32_t w = all[(2 * t + i % 2) * 4 + k % 16 / 4].b[k / 16];
            d[i] += byte(x, k) * byte(w, k);
        }
    }
}

/// The warp's part of `wgmma.m64n64k16` of f16, or of bf16, 16 of its 64 rows: a as above, columns 8 i + 2 t and
/// 8 i + 2 t + 1 of rows g and g + 8 of d are d[i]. b begins at `b` in rows of 128 bytes, whose eight parts of 16 bytes
/// change places by the row's number (PTX ISA, "128B swizzling"): 64 columns as rows and k as elements, or the other
/// way round. That four warps ask for the same product, and wait for it, is not checked.
RLX_UNSEEN inline void wgmma_m64n64k16(float (*d)[4], const uint32_t a[4], const unsigned char* b, bool is_bf16,
                                       bool rows_are_k, bool add, int line) {
    const uint32_t none[2] = {};
    const Fragments* all = of_warp(a, none, line);
    unsigned g = lane() / 4, t = lane() % 4;
    auto half = [is_bf16](uint32_t word, unsigned k) {
        uint32_t bits = word >> 16 * (k % 2) & 0xffff;
        return is_bf16 ? double(of_bits<float>(bits << 16)) : double(of_bits<_Float16>(bits));
    };
    size_t panel = size_t(b) / 1024 * 1024, in_row = size_t(b) % 128, row = size_t(b) % 1024 / 128;
    auto of_b = [&](unsigned r, unsigned e) {
        size_t at = in_row + e * 2, place = (at / 16) ^ (row + r) % 8;
        uint16_t bits;
        memcpy(&bits, (const char*)(panel + (row + r) * 128 + place * 16 + at % 16), 2);
        return half(bits, 0);
    };
    for (unsigned i = 0; i < 32; i++) {
        float& y = d[i / 4][i % 4];
        double sum = add ? y : 0.0;
        unsigned n = i / 4 * 8 + 2 * t + i % 2;
        for (unsigned k = 0; k < 16; k++) {
            uint32_t x = all[g * 4 + k % 8 / 2].a[i % 4 / 2 + k / 8 * 2];
            sum += half(x, k) * (rows_are_k ? of_b(k, n) : of_b(n, k));
        }
        y = float(sum);
    }
}

template <class T>
struct Plain {
    using Type = T;
};
template <class T>
struct Plain<T&> {
    using Type = T;
};

template <size_t... I>
struct Numbers {};
/// `Numbers<0, 1, ..., N - 1>`.
template <size_t N, size_t... I>
struct UpTo : UpTo<N - 1, N - 1, I...> {};
template <size_t... I>
struct UpTo<0, I...> {
    using Type = Numbers<I...>;
};

/// Calls a kernel with pointers to its arguments, as a launch of a driver has them.
template <class... A, size_t... I>
inline void call(void (*kernel)(A...), void** at, Numbers<I...>) {
    kernel(*(typename Plain<A>::Type*)at[I]...);
}

template <class... A>
inline void call(void (*kernel)(A...), void** at) {
    call(kernel, at, typename UpTo<sizeof...(A)>::Type());
}

}  // namespace emulator

/// Behind a file of kernels, once for each: tells the library its block, and the host the kernel.
#define RLX_KERNEL(name)                                                                                 \
    extern "C" const emulator::Kernel* name##_kernel(emulator::Block* of) {                              \
        static const emulator::Kernel kernel = {#name, [](void** at) { emulator::call(name, at); }, RLX_WARP}; \
        emulator::block = of;                                                                            \
        return &kernel;                                                                                  \
    }

#define RLX_VECTORS(type, of)                     \
    struct alignas(2 * sizeof(of)) type##2 { of x, y; };       \
    struct type##3 { of x, y, z; };               \
    struct alignas(4 * sizeof(of)) type##4 { of x, y, z, w; }; \
    inline type##2 make_##type##2(of x, of y) { return {x, y}; } \
    inline type##4 make_##type##4(of x, of y, of z, of w) { return {x, y, z, w}; }
RLX_VECTORS(float, float)
RLX_VECTORS(int, int)
RLX_VECTORS(uint, unsigned)

// CUDA's functions without an f are of the type that they are given.
#define RLX_FLOAT(name) inline float name(float x) { return name##f(x); }
#define RLX_FLOATS(name) inline float name(float x, float y) { return name##f(x, y); }
RLX_FLOAT(fabs)
RLX_FLOAT(floor)
RLX_FLOAT(ceil)
RLX_FLOAT(trunc)
RLX_FLOAT(round)
RLX_FLOAT(rint)
RLX_FLOAT(nearbyint)
RLX_FLOAT(sqrt)
RLX_FLOAT(cbrt)
RLX_FLOAT(exp)
RLX_FLOAT(exp2)
RLX_FLOAT(expm1)
RLX_FLOAT(log)
RLX_FLOAT(log2)
RLX_FLOAT(log10)
RLX_FLOAT(log1p)
RLX_FLOAT(sin)
RLX_FLOAT(cos)
RLX_FLOAT(tan)
RLX_FLOAT(asin)
RLX_FLOAT(acos)
RLX_FLOAT(atan)
RLX_FLOAT(sinh)
RLX_FLOAT(cosh)
RLX_FLOAT(tanh)
RLX_FLOAT(asinh)
RLX_FLOAT(acosh)
RLX_FLOAT(atanh)
RLX_FLOAT(erf)
RLX_FLOAT(erfc)
RLX_FLOAT(tgamma)
RLX_FLOAT(lgamma)
RLX_FLOATS(pow)
RLX_FLOATS(fmod)
RLX_FLOATS(remainder)
RLX_FLOATS(fmin)
RLX_FLOATS(fmax)
RLX_FLOATS(fdim)
RLX_FLOATS(hypot)
RLX_FLOATS(atan2)
RLX_FLOATS(copysign)
inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }
inline int abs(int x) { return x < 0 ? -x : x; }
inline long long abs(long long x) { return x < 0 ? -x : x; }

inline unsigned __float_as_uint(float x) { return emulator::of_bits<unsigned>(emulator::bits_of(x)); }
inline float __uint_as_float(unsigned x) { return emulator::of_bits<float>(x); }
inline int __float_as_int(float x) { return emulator::of_bits<int>(emulator::bits_of(x)); }
inline float __int_as_float(int x) { return emulator::of_bits<float>(emulator::bits_of(x)); }
inline long long __double_as_longlong(double x) { return (long long)emulator::bits_of(x); }
// Kernels are compiled without contraction here: what is not `fmaf` rounds twice.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return expf(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float sinpif(float x) { return float(sin(3.14159265358979323846 * x)); }
inline float cospif(float x) { return float(cos(3.14159265358979323846 * x)); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
template <class T>
inline T __ldg(const T* at) { return *at; }
template <class T>
inline T __ldcg(const T* at) { return *at; }

inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return unsigned((uint64_t(high) << 32 | low) >> (by & 31));
}
/// The nearest integer, of two as near the even one; the nearest that there is for larger numbers, 0 for no number.
inline int __float2int_rn(float x) {
    float y = ::rintf(x);
    return !(x == x) ? 0 : y >= 2147483648.0f ? 2147483647 : y < -2147483648.0f ? -2147483647 - 1 : int(y);
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned which) {
    uint64_t bytes = uint64_t(b) << 32 | a;
    unsigned y = 0;
    for (unsigned i = 0; i < 4; i++) y |= unsigned(bytes >> 8 * (which >> 4 * i & 7) & 255) << 8 * i;
    return y;
}

inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += int(int8_t(a >> 8 * i)) * int(int8_t(b >> 8 * i));
    return c;
}

// Threads of a block take turns, so that nobody comes between reading and writing.
template <class T>
RLX_UNSEEN inline T atomicAdd(T* at, T by) { T old = *at; *at = old + by; return old; }
template <class T>
RLX_UNSEEN inline T atomicMax(T* at, T x) { T old = *at; if (x > old) *at = x; return old; }
template <class T>
RLX_UNSEEN inline T atomicMin(T* at, T x) { T old = *at; if (x < old) *at = x; return old; }
template <class T>
RLX_UNSEEN inline T atomicExch(T* at, T x) { T old = *at; *at = x; return old; }
template <class T>
RLX_UNSEEN inline T atomicCAS(T* at, T expected, T x) { T old = *at; if (old == expected) *at = x; return old; }
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)
