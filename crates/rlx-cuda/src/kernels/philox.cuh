// The four words of Philox4x32-10 for a counter below 2^64 under a seed [Salmon et al. 2011].
struct Words {
    u32 at[4];
};
__device__ __forceinline__ Words philox(u64 counter, u32 seed_low, u32 seed_high) {
    u32 a = u32(counter), b = u32(counter >> 32), c = 0, d = 0;
#pragma unroll
    for (u32 round = 0; round < 10; round++) {
        u64 left = u64(0xd2511f53u) * a, right = u64(0xcd9e8d57u) * c;
        a = u32(right >> 32) ^ b ^ seed_low;
        b = u32(right);
        c = u32(left >> 32) ^ d ^ seed_high;
        d = u32(left);
        seed_low += 0x9e3779b9u;
        seed_high += 0xbb67ae85u;
    }
    return Words{{a, b, c, d}};
}
