// What every kernel of attention without a cache has: which keys a query sees, and what its scores become.
__device__ __forceinline__ float capped(float score) {
#ifdef SOFTCAP
    return SOFTCAP * tanhf(score / SOFTCAP);
#else
    return score;
#endif
}

// Where what query i sees begins and ends: queries are the last positions.
__device__ __forceinline__ u32 first_key(u32 i) {
#ifdef CAUSAL
    u32 p = KEYS - QUERIES + i;
    return p > WINDOW ? p - WINDOW : 0u;
#else
    return 0;
#endif
}
__device__ __forceinline__ u32 keys_end(u32 i) {
#ifdef CAUSAL
    return KEYS - QUERIES + i + 1;
#else
    return KEYS;
#endif
}

// What weights are relative to: where every score is minus infinity, weights are zeros.
__device__ __forceinline__ float base_of(float most) { return most == MINUS_INFINITY ? 0.0f : most; }
