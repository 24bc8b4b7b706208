// A lane's part of products of a row of x with rows of weights that a ring brings (bulk.cuh): LANES lanes share a row,
// each has 32 elements of k in each of STEPS steps.
// Whether every lane has elements in every step.
#define IS_FULL (LANES * STEPS * 32 == K)

// The lane's elements of x, times the norm's weights, in the order in which `Wide` has them, and their sums by chunk.
template <class F>
struct Own {
    float v[STEPS][32], totals[STEPS][32 / Wide<F>::CHUNK];
    __device__ __forceinline__ Own(const float* __restrict__ x, const float* __restrict__ by, u32 lane) {
        const u32 chunk = Wide<F>::CHUNK;
#pragma unroll
        for (u32 s = 0; s < STEPS; s++) {
            // What a lane of the last step reads that has no elements is read by nobody.
            u32 t = IS_FULL ? s * LANES + lane : min(s * LANES + lane, K / 32 - 1u);
#pragma unroll
            for (u32 c = 0; c < 32 / chunk; c++) {
                u32 at = Wide<F>::at(t, c);
                totals[s][c] = 0.0f;
#pragma unroll
                for (u32 i = 0; i < chunk; i += 4) {
                    float4 four = *(const float4*)(x + at + i);
#ifdef NORM
                    float4 w = *(const float4*)(by + at + i);
                    four.x *= w.x, four.y *= w.y, four.z *= w.z, four.w *= w.w;
#endif
                    float* to = v[s] + c * chunk + i;
                    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
                    totals[s][c] += (four.x + four.y) + (four.z + four.w);
                }
            }
        }
    }
    // The lane's part of a product with a row of weights.
    __device__ __forceinline__ float product(const u8* row, u32 lane) const {
        float sum = 0.0f;
#pragma unroll
        for (u32 s = 0; s < STEPS; s++) {
            u32 t = s * LANES + lane;
            if (IS_FULL || t < K / 32) sum += Wide<F>::sum(row, t, v[s], totals[s]);
        }
        return sum;
    }
};

// The same for two weights, whose types may be one.
template <class F, class Up>
struct Pair {
    Own<F> own;
    Own<Up> other;
    __device__ __forceinline__ Pair(const float* __restrict__ x, const float* __restrict__ by, u32 lane)
        : own(x, by, lane), other(x, by, lane) {}
    __device__ __forceinline__ const Own<Up>& up() const { return other; }
};
template <class F>
struct Pair<F, F> {
    Own<F> own;
    __device__ __forceinline__ Pair(const float* __restrict__ x, const float* __restrict__ by, u32 lane)
        : own(x, by, lane) {}
    __device__ __forceinline__ const Own<F>& up() const { return own; }
};

// Sums by warp of a stage's products. A group of lanes has EACH rows of the slot; those of a second weight stand behind
// all COLUMNS of the first.
template <class F, class Up>
__device__ __forceinline__ void put_stage(const Pair<F, Up>& of, const u8* slot, u32 row_bytes, float (*parts)[EACH],
                                          float (*up_parts)[EACH]) {
    u32 first = threadIdx.x / LANES * EACH, lane = threadIdx.x % LANES;
    float sums[EACH];
#pragma unroll
    for (u32 c = 0; c < EACH; c++) sums[c] = of.own.product(slot + (first + c) * row_bytes, lane);
    put_sums<EACH>(sums, parts);
#ifdef GLU
    slot += COLUMNS * row_bytes;
#pragma unroll
    for (u32 c = 0; c < EACH; c++) sums[c] = of.up().product(slot + (first + c) * UP_ROW_BYTES, lane);
    put_sums<EACH>(sums, up_parts);
#endif
}
