// The two rows of queries that a thread has, 8 apart, as products of 16 by 16 take them: PARTS halves of each number.
#ifdef HAS_HALVES

// Two floats as halves, the first one low; where there are two parts, also what those leave.
__device__ __forceinline__ void split(float a, float b, u32 (&to)[PARTS]) {
    to[0] = halves_of(a, b);
#if PARTS == 2
    to[1] = halves_of(a - float_of_half(u16(to[0])), b - float_of_half(u16(to[0] >> 16)));
#endif
}

// Where what a row sees begins and ends, and what its scores are multiplied by: more than 0, so that the largest
// product is the largest score.
struct Seen {
    u32 start[2], end[2];
    float factor[2];
};

__device__ __forceinline__ Seen read_queries(u32 own, u32 head, u32 past, u32 len, const float* __restrict__ q,
                                             u32 (&query)[PARTS][HEAD / 16][4]) {
    Seen seen = {};
    u32 pairs = threadIdx.x % 4 * 2;
#pragma unroll
    for (u32 r = 0; r < 2; r++) {
        u32 row = own + r * 8;
        if (row < len) seen_by(row, past, len, seen.start[r], seen.end[r]);
        const float* at = q + size_t(min(row, len - 1)) * HEADS * HEAD + head * HEAD + pairs;
        float most = 0.0f;
#pragma unroll
        for (u32 e = 0; e < HEAD; e += 8) {
            float2 v = *(const float2*)(at + e);
            most = fmaxf(most, fmaxf(fabsf(v.x), fabsf(v.y)));
        }
        // As in halves.cu.
        u32 exponent = __float_as_uint(most_of_four(most)) >> 23;
        u32 field = exponent == 255u || exponent < 16u ? 127u : exponent - 14u;
        float inverse = __uint_as_float((254u - field) << 23);
        if (SCALE < 0.0f) inverse = -inverse;
        seen.factor[r] = __uint_as_float(field << 23) * fabsf(SCALE);
#pragma unroll
        for (u32 j = 0; j < HEAD / 8; j++) {
            float2 v = *(const float2*)(at + j * 8);
            u32 parts[PARTS];
            split(v.x * inverse, v.y * inverse, parts);
#pragma unroll
            for (u32 p = 0; p < PARTS; p++) query[p][j / 2][j % 2 * 2 + r] = parts[p];
        }
    }
    return seen;
}
#endif
