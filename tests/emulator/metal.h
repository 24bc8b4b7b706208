// The words of MSL that kernels use, on top of `block.h`: a text compiles as C++ and runs on a CPU.
//
// Vectors are classes here, with a function for each order of elements that naga and our kernels write; another one
// does not compile. Functions that a GPU approximates are the CPU's exact ones. A constant such as 1.0 is a float in
// MSL: the compiler is told so by `-fsingle-precision-constant`.
//
// The driver writes a function behind each kernel that calls it: buffers are references or pointers to what the host
// has bound, the memory of a threadgroup is an array of the library's, and built-in values are those of the fibre.
#pragma once
#include "block.h"
#include <cmath>
#include <tuple>
#include <type_traits>
#include <utility>

typedef _Float16 half;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

inline half operator""h(long double x) { return half(x); }

/// The bytes of a value as another type of the same size.
template <class T, class U>
inline T as_type(U x) {
    static_assert(sizeof(T) == sizeof(U), "as_type keeps all bytes");
    T y;
    memcpy((void*)&y, (const void*)&x, sizeof(T));
    return y;
}

namespace metal {

using ::half;
using ::uchar;
using ::uint;
using ::ulong;
using ::ushort;

template <class T>
constexpr bool is_scalar = std::is_arithmetic<T>::value || std::is_same<T, half>::value;

template <class T, int N>
struct vec;

template <class T, int N>
struct parts;

template <class T>
struct packed;

template <class T>
struct alignas(2 * sizeof(T)) parts<T, 2> {
    union {
        T at[2];
        struct {
            T x, y;
        };
    };
};

template <class T>
struct alignas(4 * sizeof(T)) parts<T, 3> {
    union {
        T at[3];
        struct {
            T x, y, z;
        };
    };
};

template <class T>
struct alignas(4 * sizeof(T)) parts<T, 4> {
    union {
        T at[4];
        struct {
            T x, y, z, w;
        };
    };
};

template <class T, int N>
struct vec : parts<T, N> {
    using element = T;
    using parts<T, N>::at;

    vec() {
        for (int i = 0; i < N; i++) at[i] = T(0);
    }
    vec(T all) {
        for (int i = 0; i < N; i++) at[i] = all;
    }
    /// Scalars and shorter vectors, one behind the other.
    template <class A, class B, class... More>
    vec(A a, B b, More... more) {
        int n = 0;
        put(n, a);
        put(n, b);
        (put(n, more), ...);
        if (n != N) emulator::fail("a vector is made of too few or too many elements");
    }
    template <class U>
    explicit vec(const vec<U, N>& from) {
        for (int i = 0; i < N; i++) at[i] = T(from.at[i]);
    }
    explicit vec(const packed<T>& from) {
        static_assert(N == 4, "four elements");
        for (int i = 0; i < N; i++) at[i] = from.at[i];
    }

    T& operator[](int i) { return at[i]; }
    const T& operator[](int i) const { return at[i]; }

    template <class U>
    std::enable_if_t<is_scalar<U>> put(int& n, U x) {
        if (n < N) at[n] = T(x);
        n++;
    }
    template <class U, int M>
    void put(int& n, const vec<U, M>& x) {
        for (int i = 0; i < M; i++) put(n, x.at[i]);
    }

    // The driver writes `.xy()` for `.xy`: these are all orders that kernels read elements in.
    vec<T, 2> xy() const { return {at[0], at[1]}; }
    vec<T, 2> yz() const { return {at[1], at[2]}; }
    vec<T, 2> zw() const { return {at[2], at[3]}; }
    vec<T, 2> xz() const { return {at[0], at[2]}; }
    vec<T, 2> yw() const { return {at[1], at[3]}; }
    vec<T, 3> xyz() const { return {at[0], at[1], at[2]}; }
    vec<T, 3> yzw() const { return {at[1], at[2], at[3]}; }
    vec<T, 4> xxyy() const { return {at[0], at[0], at[1], at[1]}; }

#define RLX_OPERATOR(op)                                 \
    friend vec operator op(vec a, vec b) {               \
        vec y;                                           \
        for (int i = 0; i < N; i++) y.at[i] = T(a.at[i] op b.at[i]); \
        return y;                                        \
    }                                                    \
    vec& operator op##=(vec b) { return *this = *this op b; }
    RLX_OPERATOR(+)
    RLX_OPERATOR(-)
    RLX_OPERATOR(*)
    RLX_OPERATOR(/)
    RLX_OPERATOR(%)
    RLX_OPERATOR(&)
    RLX_OPERATOR(|)
    RLX_OPERATOR(^)
    RLX_OPERATOR(<<)
    RLX_OPERATOR(>>)
    // A signed number may be shifted by an unsigned one.
    template <class U, class = std::enable_if_t<!std::is_same<U, T>::value>>
    friend vec operator<<(vec a, vec<U, N> by) {
        return a << vec(by);
    }
    template <class U, class = std::enable_if_t<!std::is_same<U, T>::value>>
    friend vec operator>>(vec a, vec<U, N> by) {
        return a >> vec(by);
    }
#undef RLX_OPERATOR
#define RLX_COMPARISON(op)                               \
    friend vec<bool, N> operator op(vec a, vec b) {      \
        vec<bool, N> y;                                  \
        for (int i = 0; i < N; i++) y.at[i] = a.at[i] op b.at[i]; \
        return y;                                        \
    }
    RLX_COMPARISON(==)
    RLX_COMPARISON(!=)
    RLX_COMPARISON(<)
    RLX_COMPARISON(<=)
    RLX_COMPARISON(>)
    RLX_COMPARISON(>=)
#undef RLX_COMPARISON
    friend vec operator-(vec a) {
        for (int i = 0; i < N; i++) a.at[i] = T(-a.at[i]);
        return a;
    }
    friend vec operator~(vec a) {
        for (int i = 0; i < N; i++) a.at[i] = T(~a.at[i]);
        return a;
    }
    friend vec operator!(vec a) {
        for (int i = 0; i < N; i++) a.at[i] = T(!a.at[i]);
        return a;
    }
};

#define RLX_VECTORS(type)           \
    typedef vec<type, 2> type##2;   \
    typedef vec<type, 3> type##3;   \
    typedef vec<type, 4> type##4;
RLX_VECTORS(float)
RLX_VECTORS(half)
RLX_VECTORS(int)
RLX_VECTORS(uint)
RLX_VECTORS(short)
RLX_VECTORS(ushort)
RLX_VECTORS(uchar)
RLX_VECTORS(bool)
#undef RLX_VECTORS
typedef vec<signed char, 4> char4;

/// Four elements at the address of any one.
template <class T>
struct packed {
    T at[4];
    packed() = default;
    template <class U>
    packed(const vec<U, 4>& x) {
        for (int i = 0; i < 4; i++) at[i] = T(x.at[i]);
    }
    T operator[](int i) const { return at[i]; }
};
typedef packed<float> packed_float4;
typedef packed<half> packed_half4;
typedef packed<uint> packed_uint4;
typedef packed<ushort> packed_ushort4;

template <class T, int C, int R>
struct matrix {
    vec<T, R> columns[C];
    vec<T, R>& operator[](int i) { return columns[i]; }
    const vec<T, R>& operator[](int i) const { return columns[i]; }
    matrix() = default;
    template <class... V>
    matrix(const vec<T, R>& first, const V&... more) : columns{first, vec<T, R>(more)...} {
        static_assert(sizeof...(V) + 1 == C, "a matrix is made of its columns");
    }
};
typedef matrix<float, 2, 2> float2x2;
typedef matrix<float, 3, 3> float3x3;
typedef matrix<float, 4, 4> float4x4;
typedef matrix<half, 4, 4> half4x4;

// A function of scalars, and of vectors element by element.
#define RLX_OF_ONE(name, of, text)                                    \
    inline of name(of x) { return of(text); }                         \
    template <int N>                                                  \
    inline vec<of, N> name(vec<of, N> v) {                            \
        for (int i = 0; i < N; i++) v.at[i] = name(v.at[i]);          \
        return v;                                                     \
    }
#define RLX_OF_TWO(name, of, text)                                    \
    inline of name(of x, of y) { return of(text); }                   \
    template <int N>                                                  \
    inline vec<of, N> name(vec<of, N> v, vec<of, N> w) {              \
        for (int i = 0; i < N; i++) v.at[i] = name(v.at[i], w.at[i]); \
        return v;                                                     \
    }
#define RLX_OF_THREE(name, of, text)                                  \
    inline of name(of x, of y, of z) { return of(text); }             \
    template <int N>                                                  \
    inline vec<of, N> name(vec<of, N> u, vec<of, N> v, vec<of, N> w) { \
        for (int i = 0; i < N; i++) u.at[i] = name(u.at[i], v.at[i], w.at[i]); \
        return u;                                                     \
    }
#define RLX_FLOATS(of)                                                \
    RLX_OF_ONE(floor, of, ::floorf(x)) RLX_OF_ONE(ceil, of, ::ceilf(x)) RLX_OF_ONE(rint, of, ::rintf(x)) \
    RLX_OF_ONE(round, of, ::roundf(x)) RLX_OF_ONE(trunc, of, ::truncf(x)) RLX_OF_ONE(fract, of, x - ::floorf(x)) \
    RLX_OF_ONE(sqrt, of, ::sqrtf(x)) RLX_OF_ONE(rsqrt, of, 1.0f / ::sqrtf(x)) RLX_OF_ONE(exp, of, ::expf(x)) \
    RLX_OF_ONE(exp2, of, ::exp2f(x)) RLX_OF_ONE(log, of, ::logf(x)) RLX_OF_ONE(log2, of, ::log2f(x)) \
    RLX_OF_ONE(sin, of, ::sinf(x)) RLX_OF_ONE(cos, of, ::cosf(x)) RLX_OF_ONE(tan, of, ::tanf(x)) \
    RLX_OF_ONE(asin, of, ::asinf(x)) RLX_OF_ONE(acos, of, ::acosf(x)) RLX_OF_ONE(atan, of, ::atanf(x)) \
    RLX_OF_ONE(sinh, of, ::sinhf(x)) RLX_OF_ONE(cosh, of, ::coshf(x)) RLX_OF_ONE(tanh, of, ::tanhf(x)) \
    RLX_OF_ONE(asinh, of, ::asinhf(x)) RLX_OF_ONE(acosh, of, ::acoshf(x)) RLX_OF_ONE(atanh, of, ::atanhf(x)) \
    RLX_OF_ONE(abs, of, ::fabsf(x)) RLX_OF_ONE(saturate, of, ::fminf(::fmaxf(x, 0), 1)) \
    RLX_OF_ONE(sign, of, x > of(0) ? 1 : x < of(0) ? -1 : 0) \
    RLX_OF_TWO(min, of, ::fminf(x, y)) RLX_OF_TWO(max, of, ::fmaxf(x, y)) RLX_OF_TWO(pow, of, ::powf(x, y)) \
    RLX_OF_TWO(atan2, of, ::atan2f(x, y)) RLX_OF_TWO(fmod, of, ::fmodf(x, y)) RLX_OF_TWO(step, of, y < x ? 0 : 1) \
    RLX_OF_THREE(fma, of, ::fmaf(x, y, z)) RLX_OF_THREE(clamp, of, ::fminf(::fmaxf(x, y), z)) \
    RLX_OF_THREE(mix, of, x + (y - x) * z)
RLX_FLOATS(float)
RLX_FLOATS(half)
#define RLX_INTEGERS(of)                                              \
    RLX_OF_TWO(min, of, x < y ? x : y) RLX_OF_TWO(max, of, x > y ? x : y) \
    RLX_OF_THREE(clamp, of, x < y ? y : x > z ? z : x)                \
    RLX_OF_ONE(popcount, of, __builtin_popcount(unsigned(x)))         \
    RLX_OF_ONE(clz, of, unsigned(x) ? __builtin_clz(unsigned(x)) : 32) \
    RLX_OF_ONE(ctz, of, unsigned(x) ? __builtin_ctz(unsigned(x)) : 32)
RLX_INTEGERS(int)
RLX_INTEGERS(uint)
RLX_OF_ONE(abs, int, x < 0 ? -unsigned(x) : unsigned(x))
RLX_OF_ONE(sign, int, x > 0 ? 1 : x < 0 ? -1 : 0)
#undef RLX_INTEGERS
#undef RLX_FLOATS

template <class T, int N>
inline vec<T, N> clamp(vec<T, N> x, T low, T high) {
    return clamp(x, vec<T, N>(low), vec<T, N>(high));
}

// Faster and less exact on a GPU, the same here.
namespace fast {
using metal::exp;
using metal::exp2;
}  // namespace fast

template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
inline T select(T no, T yes, bool which) {
    return which ? yes : no;
}
template <class T, int N>
inline vec<T, N> select(vec<T, N> no, vec<T, N> yes, vec<bool, N> which) {
    for (int i = 0; i < N; i++) no.at[i] = which.at[i] ? yes.at[i] : no.at[i];
    return no;
}
template <class T, int N>
inline vec<T, N> select(vec<T, N> no, T yes, vec<bool, N> which) {
    return select(no, vec<T, N>(yes), which);
}
template <class T, int N>
inline T dot(vec<T, N> a, vec<T, N> b) {
    T sum = T(a.at[0] * b.at[0]);
    for (int i = 1; i < N; i++) sum = T(sum + a.at[i] * b.at[i]);
    return sum;
}
template <int N>
inline bool any(vec<bool, N> x) {
    for (int i = 0; i < N; i++) {
        if (x.at[i]) return true;
    }
    return false;
}
template <int N>
inline bool all(vec<bool, N> x) {
    for (int i = 0; i < N; i++) {
        if (!x.at[i]) return false;
    }
    return true;
}
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
template <int N>
inline vec<bool, N> isinf(vec<float, N> x) {
    vec<bool, N> y;
    for (int i = 0; i < N; i++) y.at[i] = isinf(x.at[i]);
    return y;
}
inline uint mulhi(uint a, uint b) { return uint(uint64_t(a) * b >> 32); }

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
inline mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }

RLX_UNSEEN inline void emulated_barrier(mem_flags, int line) { emulator::barrier(line); }

/// The lanes of this SIMD group that the threadgroup has.
RLX_UNSEEN inline uint64_t emulated_lanes() {
    emulator::Dim b = emulator::block->launch.block;
    unsigned first = emulator::block->now->number / RLX_WARP * RLX_WARP, rest = b.x * b.y * b.z - first;
    return rest >= RLX_WARP ? (RLX_WARP == 64 ? ~0ull : (1ull << RLX_WARP % 64) - 1) : (1ull << rest) - 1;
}
inline uint emulated_lane() { return emulator::block->now->number % RLX_WARP; }

RLX_UNSEEN inline void emulated_group_barrier(mem_flags, int line) { emulator::exchange(emulated_lanes(), 0, line); }

template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
RLX_UNSEEN inline T emulated_shuffle(T x, uint lane, int line) {
    uint64_t bits = 0, lanes = emulated_lanes();
    memcpy(&bits, &x, sizeof(T));
    uint64_t other = emulator::of_lane(emulator::exchange(lanes, bits, line), lanes, lane);
    memcpy(&x, &other, sizeof(T));
    return x;
}
template <class T, int N>
RLX_UNSEEN inline vec<T, N> emulated_shuffle(vec<T, N> x, uint lane, int line) {
    for (int i = 0; i < N; i++) x.at[i] = emulated_shuffle(x.at[i], lane, line);
    return x;
}
template <class T>
inline T emulated_shuffle_xor(T x, uint mask, int line) {
    return emulated_shuffle(x, emulated_lane() ^ mask, line);
}
/// Sums as a butterfly: a GPU may add in any order.
template <class T>
inline T emulated_simd_sum(T x, int line) {
    for (uint mask = 1; mask < RLX_WARP; mask *= 2) x = T(x + emulated_shuffle_xor(x, mask, line));
    return x;
}
template <class T>
inline T emulated_simd_max(T x, int line) {
    for (uint mask = 1; mask < RLX_WARP; mask *= 2) x = max(x, emulated_shuffle_xor(x, mask, line));
    return x;
}

enum memory_order { memory_order_relaxed };
template <class T>
struct atomic {
    T value;
};
typedef atomic<uint> atomic_uint;
typedef atomic<int> atomic_int;

// Threads of a threadgroup take turns, so that nobody comes between reading and writing.
#define RLX_ATOMIC(name, text)                                                             \
    template <class T, class U>                                                            \
    RLX_UNSEEN inline T atomic_fetch_##name##_explicit(atomic<T>* at, U by, memory_order) { \
        T x = T(by);                                                                       \
        T old = at->value;                                                                 \
        at->value = text;                                                                  \
        return old;                                                                        \
    }
RLX_ATOMIC(add, T(old + x))
RLX_ATOMIC(sub, T(old - x))
RLX_ATOMIC(max, old > x ? old : x)
RLX_ATOMIC(min, old < x ? old : x)
RLX_ATOMIC(and, T(old & x))
RLX_ATOMIC(or, T(old | x))
RLX_ATOMIC(xor, T(old ^ x))
#undef RLX_ATOMIC
template <class T>
RLX_UNSEEN inline T atomic_load_explicit(const atomic<T>* at, memory_order) {
    return at->value;
}
template <class T, class U>
RLX_UNSEEN inline void atomic_store_explicit(atomic<T>* at, U x, memory_order) {
    at->value = T(x);
}

/// A matrix of a SIMD group. On a GPU its elements are spread over the lanes in an order that nobody promises; here
/// each lane has all of them, and computes two.
template <class T, int C, int R>
struct simdgroup_matrix {
    static_assert(C == 8 && R == 8, "Metal has matrices of 8 x 8");
    T at[8][8];
};
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;

template <class T, int C, int R>
inline simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T x) {
    simdgroup_matrix<T, C, R> y;
    for (auto& row : y.at) {
        for (T& element : row) element = x;
    }
    return y;
}
template <class T>
inline void emulated_load(int line, simdgroup_matrix<T, 8, 8>& y, const T* from, ulong stride) {
    emulator::exchange(emulated_lanes(), 0, line);
    for (int r = 0; r < 8; r++) memcpy(y.at[r], from + ulong(r) * stride, sizeof y.at[r]);
}
/// The same of the matrix whose rows are the columns there.
template <class T>
inline void emulated_load(int line, simdgroup_matrix<T, 8, 8>& y, const T* from, ulong stride, int origin,
                          bool turned) {
    if (origin != 0 || !turned) emulator::fail("a matrix is loaded from its first element on, turned");
    emulator::exchange(emulated_lanes(), 0, line);
    for (int r = 0; r < 8; r++) {
        for (int c = 0; c < 8; c++) y.at[r][c] = from[ulong(c) * stride + r];
    }
}
template <class T>
inline void emulated_store(const simdgroup_matrix<T, 8, 8>& x, T* to, ulong stride, int line) {
    emulator::exchange(emulated_lanes(), 0, line);
    // Two elements a lane.
    uint at = 2 * emulated_lane();
    for (uint i = at; i < at + 2; i++) to[ulong(i / 8) * stride + i % 8] = x.at[i / 8][i % 8];
}
template <class A, class B>
inline void emulated_multiply(simdgroup_float8x8& d, const simdgroup_matrix<A, 8, 8>& a,
                              const simdgroup_matrix<B, 8, 8>& b, const simdgroup_float8x8& c, int line) {
    uint at = 2 * emulated_lane(), r = at / 8, n = at % 8;
    float two[2] = {c.at[r][n], c.at[r][n + 1]};
    for (int k = 0; k < 8; k++) {
        float x = float(a.at[r][k]);
        two[0] += x * float(b.at[k][n]);
        two[1] += x * float(b.at[k][n + 1]);
    }
    // Row by row, as lanes stand side by side.
    uint64_t own = as_type<uint64_t>(vec<float, 2>(two[0], two[1]));
    memcpy(d.at, emulator::exchange(emulated_lanes(), own, line), sizeof d.at);
}
template <class A, class B>
inline void emulated_product(simdgroup_float8x8& d, const simdgroup_matrix<A, 8, 8>& a,
                             const simdgroup_matrix<B, 8, 8>& b, int line) {
    emulated_multiply(d, a, b, make_filled_simdgroup_matrix<float, 8, 8>(0.0f), line);
}

}  // namespace metal

using metal::bool2;
using metal::float2;
using metal::float3;
using metal::float4;
using metal::half2;
using metal::half4;
using metal::int2;
using metal::int4;
using metal::uchar4;
using metal::uint2;
using metal::uint3;
using metal::uint4;
using metal::ushort4;
typedef metal::packed<signed char> packed_char4;
typedef metal::packed<uchar> packed_uchar4;

namespace emulator {

/// The types of a kernel's parameters.
template <class F>
struct parameters;
template <class... A>
struct parameters<void (*)(A...)> {
    template <int I>
    using type = std::tuple_element_t<I, std::tuple<A...>>;
};

/// Memory as a parameter has it: a reference or a pointer.
template <class T>
inline T memory(void* at) {
    if constexpr (std::is_reference<T>::value) {
        return *(std::remove_reference_t<T>*)at;
    } else {
        return (T)at;
    }
}

/// Where buffer `n` of a launch begins.
template <class T>
inline T buffer(void** at, int n) {
    return memory<T>(*(void**)at[n]);
}

inline uint3 threadgroup_position() { return uint3(block->index.x, block->index.y, block->index.z); }
inline uint3 threadgroups() { return uint3(block->launch.grid.x, block->launch.grid.y, block->launch.grid.z); }

}  // namespace emulator

#include "tensors.h"

#define threadgroup_barrier(flags) emulated_barrier(flags, __LINE__)
#define simdgroup_barrier(flags) emulated_group_barrier(flags, __LINE__)
#define simd_shuffle(x, lane) emulated_shuffle(x, lane, __LINE__)
#define simd_shuffle_xor(x, mask) emulated_shuffle_xor(x, mask, __LINE__)
#define simd_sum(x) emulated_simd_sum(x, __LINE__)
#define simd_max(x) emulated_simd_max(x, __LINE__)
#define simdgroup_load(...) emulated_load(__LINE__, __VA_ARGS__)
#define simdgroup_store(x, to, stride) emulated_store(x, to, stride, __LINE__)
#define simdgroup_multiply(d, a, b) emulated_product(d, a, b, __LINE__)
#define simdgroup_multiply_accumulate(d, a, b, c) emulated_multiply(d, a, b, c, __LINE__)

#define kernel static
#define device
#define constant const
#define threadgroup
#define thread
