// Arithmetic of integers that wraps, in unsigned words: every result is defined.
template <class T>
struct Unsigned {
    typedef u32 type;
};
template <>
struct Unsigned<i64> {
    typedef u64 type;
};
#define WRAPPED(name, sign)                                      \
    template <class T>                                           \
    __device__ __forceinline__ T name(T a, T b) {                \
        typedef typename Unsigned<T>::type Word;                 \
        return T(Word(a) sign Word(b));                          \
    }
WRAPPED(sum_of, +)
WRAPPED(difference_of, -)
WRAPPED(product_of, *)
// Towards 0. By 0 it is 0, which nobody may read; by -1 it wraps.
template <class T>
__device__ __forceinline__ T quotient_of(T a, T b) {
    if (b == 0) return 0;
    if (T(-1) < 0 && b == T(-1)) return difference_of(T(0), a);
    return T(a / b);
}
// The remainder, with the sign of a.
template <class T>
__device__ __forceinline__ T remainder_of(T a, T b) {
    if (b == 0 || (T(-1) < 0 && b == T(-1))) return 0;
    return T(a % b);
}
