// i / n of any i, of what numbers.rs makes of n: a product and two shifts in place of a division.
__device__ __forceinline__ u32 divided(u32 i, u32 multiplier, u32 first, u32 second) {
    u32 high = __umulhi(i, multiplier);
    return (high + ((i - high) >> first)) >> second;
}
