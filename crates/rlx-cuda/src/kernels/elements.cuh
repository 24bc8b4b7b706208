// Elements of every scalar type: how they are stored, the type they are computed in, and both ways between the two.
// Halves are computed in f32, integers in their own type. `value_of` reads an element; `rounded_to<T>` makes one, halves
// to the nearest with ties to even, integers by their low bits.
typedef double f64;
typedef float f32;
typedef long long i64;
typedef int i32;
typedef short i16;
struct f16 {
    u16 bits;
};
struct bf16 {
    u16 bits;
};
struct flag {
    u8 bits;
};

template <class T>
struct ValueOf {
    typedef T type;
};
template <>
struct ValueOf<f16> {
    typedef f32 type;
};
template <>
struct ValueOf<bf16> {
    typedef f32 type;
};
template <>
struct ValueOf<flag> {
    typedef bool type;
};

template <class T>
__device__ __forceinline__ T value_of(T x) {
    return x;
}
__device__ __forceinline__ f32 value_of(f16 x) { return float_of_half(x.bits); }
__device__ __forceinline__ f32 value_of(bf16 x) { return float_of_bf16(x.bits); }
__device__ __forceinline__ bool value_of(flag x) { return x.bits != 0; }

template <class T>
struct Rounded {
    template <class V>
    static __device__ __forceinline__ T of(V x) {
        return T(x);
    }
};
template <>
struct Rounded<f16> {
    static __device__ __forceinline__ f16 of(f32 x) { return f16{half_of_float(x)}; }
};
template <>
struct Rounded<bf16> {
    static __device__ __forceinline__ bf16 of(f32 x) {
        u32 bits = __float_as_uint(x);
        // A NaN stays one.
        if ((bits & 0x7fffffffu) > 0x7f800000u) return bf16{u16(bits >> 16 | 0x40u)};
        return bf16{u16((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
    }
};
template <>
struct Rounded<flag> {
    static __device__ __forceinline__ flag of(bool x) { return flag{u8(x)}; }
};
template <class T, class V>
__device__ __forceinline__ T rounded_to(V x) {
    return Rounded<T>::of(x);
}
