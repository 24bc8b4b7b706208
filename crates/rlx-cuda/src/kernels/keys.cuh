// Unsigned words in the order of the elements that they stand for. Zeros of either sign are one; NaN is the largest.
template <class T>
struct KeyOf {
    typedef u32 type;
};
template <>
struct KeyOf<f64> {
    typedef u64 type;
};
template <>
struct KeyOf<i64> {
    typedef u64 type;
};
__device__ __forceinline__ u32 key_of(f32 x) {
    u32 bits = __float_as_uint(x), size = bits & 0x7fffffffu;
    if (x != x) return 0xffffffffu;
    return bits == size ? 0x80000000u + size : 0x80000000u - size;
}
__device__ __forceinline__ u64 key_of(f64 x) {
    u64 bits = u64(__double_as_longlong(x)), size = bits & 0x7fffffffffffffffull;
    if (x != x) return ~0ull;
    return bits == size ? (1ull << 63) + size : (1ull << 63) - size;
}
__device__ __forceinline__ u64 key_of(i64 x) { return u64(x) ^ 1ull << 63; }
__device__ __forceinline__ u32 key_of(i32 x) { return u32(x) ^ 0x80000000u; }
__device__ __forceinline__ u32 key_of(i16 x) { return key_of(i32(x)); }
__device__ __forceinline__ u32 key_of(i8 x) { return key_of(i32(x)); }
__device__ __forceinline__ u32 key_of(u32 x) { return x; }
__device__ __forceinline__ u32 key_of(u8 x) { return x; }
