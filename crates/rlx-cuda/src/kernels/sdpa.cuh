// What every kernel of attention without a cache has: which keys a query sees, and what its scores become.
__device__ __forceinline__ float capped(float score) {
#ifdef SOFTCAP
    return SOFTCAP * tanhf(score / SOFTCAP);
#else
    return score;
#endif
}

// Where what query i sees begins and ends: queries are the last positions.
#ifdef CAUSAL
#define POSITION(i) (KEYS - QUERIES + (i))
#define FIRST_KEY(i) (POSITION(i) > WINDOW ? POSITION(i) - WINDOW : 0u)
#define KEYS_END(i) (POSITION(i) + 1u)
#else
#define FIRST_KEY(i) 0u
#define KEYS_END(i) KEYS
#endif

// What weights are relative to: where every score is minus infinity, weights are zeros.
__device__ __forceinline__ float base_of(float most) { return most == MINUS_INFINITY ? 0.0f : most; }
