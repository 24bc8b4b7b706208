// Conversions between scalar types as `cast` defines them, each rounded once. `cast_to<T>` makes an element of a value.
template <class T>
struct Limits;
template <>
struct Limits<i8> {
    static constexpr i64 least = -128, most = 127;
};
template <>
struct Limits<u8> {
    static constexpr i64 least = 0, most = 255;
};
template <>
struct Limits<i16> {
    static constexpr i64 least = -32768, most = 32767;
};
template <>
struct Limits<i32> {
    static constexpr i64 least = -2147483648ll, most = 2147483647ll;
};
template <>
struct Limits<u32> {
    static constexpr i64 least = 0, most = 4294967295ll;
};
template <>
struct Limits<i64> {
    static constexpr i64 least = -9223372036854775807ll - 1, most = 9223372036854775807ll;
};

// A float that rounds to any half as x does: cut towards 0, its last bit set if anything was cut [Boldo and Melquiond
// 2008].
__device__ __forceinline__ f32 odd_of(f64 x) {
    f32 near = f32(x);
    // Exact, no number, or beyond every half.
    if (f64(near) == x || !(fabsf(near) <= 3.4028234664e38f)) return near;
    u32 cut = __float_as_uint(near) - u32(fabs(f64(near)) > fabs(x));
    return __uint_as_float(cut | 1u);
}
// The same of an integer, of which an f64 holds 53 digits.
__device__ __forceinline__ f32 odd_of(i64 x) {
    u64 size = x < 0 ? 0ull - u64(x) : u64(x);
    f64 wide = size >> 53 == 0 ? f64(size) : f64(size >> 11 | u64((size & 2047) != 0)) * 2048.0;
    return odd_of(x < 0 ? -wide : wide);
}

template <class T, class V>
struct Cast {
    // An integer's low bits, a float's nearest.
    static __device__ __forceinline__ T of(V x) { return T(x); }
};
// Floats are cut off towards 0; what is too large saturates, and NaN is 0.
template <class T, class V>
__device__ __forceinline__ T integer_of(V x) {
    // The first float above is a power of 2, as is the least integer: floats hold both.
    if (x != x) return 0;
    if (x >= V(u64(Limits<T>::most) / 2 + 1) * V(2)) return T(Limits<T>::most);
    if (x <= V(Limits<T>::least)) return T(Limits<T>::least);
    return T(x);
}
#define CAST_OF_FLOATS(T)                                                                      \
    template <>                                                                                \
    struct Cast<T, f32> {                                                                      \
        static __device__ __forceinline__ T of(f32 x) { return integer_of<T>(x); }             \
    };                                                                                         \
    template <>                                                                                \
    struct Cast<T, f64> {                                                                      \
        static __device__ __forceinline__ T of(f64 x) { return integer_of<T>(x); }             \
    };
CAST_OF_FLOATS(i8)
CAST_OF_FLOATS(u8)
CAST_OF_FLOATS(i16)
CAST_OF_FLOATS(i32)
CAST_OF_FLOATS(u32)
CAST_OF_FLOATS(i64)
template <class V>
struct Cast<flag, V> {
    static __device__ __forceinline__ flag of(V x) { return flag{u8(x != V(0))}; }
};
__device__ __forceinline__ f32 half_source(f32 x) { return x; }
__device__ __forceinline__ f32 half_source(f64 x) { return odd_of(x); }
__device__ __forceinline__ f32 half_source(i64 x) { return odd_of(x); }
template <class V>
struct Cast<f16, V> {
    static __device__ __forceinline__ f16 of(V x) { return rounded_to<f16>(half_source(x)); }
};
template <class V>
struct Cast<bf16, V> {
    static __device__ __forceinline__ bf16 of(V x) { return rounded_to<bf16>(half_source(x)); }
};
// Integers of up to 16 bits are floats already; of 32 bits an i64 is rounded.
#define HALVES_OF(V, WIDE)                                                                          \
    template <>                                                                                     \
    struct Cast<f16, V> {                                                                           \
        static __device__ __forceinline__ f16 of(V x) { return rounded_to<f16>(half_source(WIDE(x))); }   \
    };                                                                                              \
    template <>                                                                                     \
    struct Cast<bf16, V> {                                                                          \
        static __device__ __forceinline__ bf16 of(V x) { return rounded_to<bf16>(half_source(WIDE(x))); } \
    };
HALVES_OF(bool, f32)
HALVES_OF(i8, f32)
HALVES_OF(u8, f32)
HALVES_OF(i16, f32)
HALVES_OF(i32, i64)
HALVES_OF(u32, i64)

// An element of type T of a value.
template <class T, class V>
__device__ __forceinline__ T cast_to(V x) {
    return Cast<T, V>::of(x);
}
