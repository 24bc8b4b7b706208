// What a sampler and a predictor share: weights of logits in integers, by rlx-core's sample/, and sums over threads.
// Sums are taken over so many threads, and over so many of such sums.
#define SIDE 32u
#define NONE 0xffffffffu
// Of params.
#define GREEDY 0
#define SCALE 1
#define MIN_P 4
#define SEED_LO 10
#define SEED_HI 11
// 32 octaves of 2^16: the least distance whose weight is 0.
#define FAR 0x200000u

// Orders f32 bits as integers; 0 for NaN and -inf, which are never taken.
__device__ __forceinline__ u32 key_of(u32 bits) {
    bool never = (bits & 0x7fffffffu) > 0x7f800000u || bits == 0xff800000u;
    // -0 and 0 alike.
    u32 ordered = bits > 0x80000000u ? ~bits : bits | 0x80000000u;
    return never ? 0u : ordered;
}

// The logit of a key, brought to +-2^126 so that a difference of two is finite.
__device__ __forceinline__ float logit_of(u32 key) {
    u32 near = min(max(key, 0x017fffffu), 0xfe800000u);
    return __uint_as_float(near >= 0x80000000u ? near ^ 0x80000000u : ~near);
}

// floor(a * fraction / 2^16)
__device__ __forceinline__ u32 scaled(u32 a, u32 fraction) { return u32(u64(a) * fraction >> 16); }

// 2^31 * 2^(-q / 2^16); the polynomial is that of rlx-core's sample/weight.rs.
__device__ __forceinline__ u32 weight(u32 q) {
    if (q >= FAR) return 0u;
    u32 fraction = q & 0xffffu;
    u32 sum = 19794886u - scaled(2034856u, fraction);
    sum = 118784456u - scaled(sum, fraction);
    sum = 515800015u - scaled(sum, fraction);
    sum = 1488517413u - scaled(sum, fraction);
    sum = 2147483648u - scaled(sum, fraction);
    return sum >> (q >> 16);
}

// The sum of `sums` before the thread's own, and of all: within SIDE, and over SIDE of those.
__device__ void span_of(const u64* sums, u64* groups, u64& before, u64& total) {
    u32 thread = threadIdx.x;
    __syncthreads();
    if (thread < SIDE) {
        u64 sum = 0;
        for (u32 i = 0; i < SIDE; i++) sum += sums[thread * SIDE + i];
        groups[thread] = sum;
    }
    __syncthreads();
    before = 0;
    total = 0;
    for (u32 g = 0; g < SIDE; g++) {
        if (g == thread / SIDE) before = total;
        total += groups[g];
    }
    for (u32 t = thread / SIDE * SIDE; t < thread; t++) before += sums[t];
}

// The lower 64 bits of a product behind a shift by less than 64.
__device__ __forceinline__ u64 product_shifted(u64 a, u32 b, u32 by) {
    return __umul64hi(a, b) << (64u - by) | a * b >> by;
}
