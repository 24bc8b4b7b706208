// Scores of TILE keys from j0 on, as tensor cores leave them, become weights relative to the largest score so far: a
// thread has those of queries `own` and `own` + 8, which see keys from `start` to `end`. What was summed up before is
// multiplied by `fade`.
__device__ __forceinline__ void weigh(float (*scores)[4], const u32 start[2], const u32 end[2], float most[2],
                                      float total[2], float fade[2], u32 own, u32 j0, u32 h, u32 b MASK_PARAMETERS) {
#pragma unroll
    for (u32 r = 0; r < 2; r++) {
        u32 i = min(own + r * 8, QUERIES - 1);
        float higher = most[r];
#pragma unroll
        for (u32 n = 0; n < TILE / 4; n++) {
            float& score = scores[n / 2][r * 2 + n % 2];
            u32 j = j0 + n / 2 * 8 + threadIdx.x % 4 * 2 + n % 2;
            if (j >= start[r] && j < end[r]) {
                score = capped(score * SCALE);
                score = MASKED(score, b, h, i, j);
            } else {
                score = MINUS_INFINITY;
            }
            higher = fmaxf(higher, score);
        }
        higher = most_of_four(higher);
        float base = base_of(higher);
        fade[r] = __expf(most[r] - base);
        most[r] = higher;
        total[r] *= fade[r];
#pragma unroll
        for (u32 n = 0; n < TILE / 4; n++) {
            float& score = scores[n / 2][r * 2 + n % 2];
            score = __expf(score - base);
            total[r] += score;
        }
    }
}

#ifdef HAS_HALVES
__device__ __forceinline__ u32 pair_of(float a, float b) {
    return pair(rounded_to<T>(a).bits, rounded_to<T>(b).bits);
}
#endif
