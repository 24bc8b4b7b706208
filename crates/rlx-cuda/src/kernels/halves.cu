// halves      h[m, k] + l[m, k] / 2048 = x[m, k] / scales[m]: halves of each row of x, which one product of f16 takes
// shapes      x T[M, K]    halves f16[PARTS M, K], h before l, or f16[M, JOINED K], where a row has JOINED of its parts
//             side by side, l as it is    scales f32[M], powers of two. ORDERED: of 32 elements those from 8 t on stand
//             at 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of the first 16 places, then of the others, where a product reads
//             what lane t has: weights that it decoded as a run of eight
// bytes       sizeof(T)*M*K read (twice, once from a cache), 2*PARTS*M*K written
// launch      a block of THREADS threads is a row
// numerics    the largest of a row is below 2^15, so that h is no infinity. Two parts leave less than 2^-22 of x, one
//             leaves 2^-12 (and nothing of bf16), or of the row's largest number 2^-39
#ifdef BF16
typedef u16 T;
__device__ __forceinline__ float4 four_at(const T* x) {
    uint2 v = *(const uint2*)x;
    return make_float4(__uint_as_float(v.x << 16), __uint_as_float(v.x & 0xffff0000u), __uint_as_float(v.y << 16),
                       __uint_as_float(v.y & 0xffff0000u));
}
#else
typedef float T;
__device__ __forceinline__ float4 four_at(const T* x) { return *(const float4*)x; }
#endif

KERNEL(halves)(const T* __restrict__ x, u16* __restrict__ halves, float* __restrict__ scales CTL_PARAMETER) {
    wait_for_previous();
    u32 row = blockIdx.x;
    if (IS_LATE(row)) return;
    x += size_t(row) * K;
    float most = 0.0f;
    for (u32 k = threadIdx.x * 4; k < K; k += THREADS * 4) {
        float4 v = four_at(x + k);
        most = fmaxf(most, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
    }
    __shared__ float parts[THREADS / WARP];
    most = warp_max(most);
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = most;
    __syncthreads();
    for (u32 i = 0; i < THREADS / WARP; i++) most = fmaxf(most, parts[i]);
    // The exponent of the largest number is 14 then; rows of zeros, and what is no number, stay as they are.
    u32 exponent = __float_as_uint(most) >> 23;
    u32 field = exponent == 255u || exponent < 16u ? 127u : exponent - 14u;
    float scale = __uint_as_float(field << 23), inverse = __uint_as_float((254u - field) << 23);
    if (threadIdx.x == 0) scales[row] = scale;
#ifndef JOINED
    u16* high = halves + size_t(row) * K;
#endif
    for (u32 k = threadIdx.x * 4; k < K; k += THREADS * 4) {
        float4 v = four_at(x + k);
        float e[4] = {v.x * inverse, v.y * inverse, v.z * inverse, v.w * inverse};
#ifdef JOINED
        const float low_scale = 1.0f;
#else
        const float low_scale = 2048.0f;
#endif
        u64 h = 0, l = 0;
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u16 part = half_of_float(e[j]);
            h |= u64(part) << (16 * j);
#if PARTS == 2
            l |= u64(half_of_float((e[j] - float_of_half(part)) * low_scale)) << (16 * j);
#endif
        }
#ifdef JOINED
#pragma unroll
        for (u32 part = 0; part < JOINED; part++) {
            u64 four = ORDER >> part & 1 ? l : h;
            u16* at = halves + (size_t(row) * JOINED + part) * K + k;
#ifdef ORDERED
            at += int(k % 8 / 4 * 16 + k % 32 / 8 * 2) - int(k % 32);
            *(u32*)at = u32(four);
            *(u32*)(at + 8) = u32(four >> 32);
#else
            *(u64*)at = four;
#endif
        }
#else
        *(u64*)(high + k) = h;
#if PARTS == 2
        *(u64*)(high + size_t(M) * K + k) = l;
#endif
#endif
    }
}
