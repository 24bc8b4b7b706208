// Products of floats by tensor cores, which take the first 11 significant bits of each and add in f32.
#if WARP == 32 && (defined(RLX_EMULATOR) || __CUDA_ARCH__ >= 800)
#define HAS_TF32
__device__ __forceinline__ float to_tf32(float x) {
#ifdef RLX_EMULATOR
    return __uint_as_float((__float_as_uint(x) + 0x1000u) & ~0x1fffu);
#else
    u32 y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return __uint_as_float(y);
#endif
}

// d += a b, of 16 rows by 8 of k, and 8 of k by 8 columns; PTX ISA, "Matrix fragments for mma.m16n8k8".
__device__ __forceinline__ void multiply(float d[4], const float a[4], const float b[2]) {
#ifdef RLX_EMULATOR
    emulator::mma_m16n8k8(d, a, b, __LINE__);
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
#endif
}

// A float as two numbers that tensor cores take, but for its last two bits. The first one is cut off and not rounded:
// conversions have few units.
__device__ __forceinline__ void cut(float x, float& high, float& low) {
    high = __uint_as_float(__float_as_uint(x) & ~0x1fffu);
    low = __uint_as_float(__float_as_uint(x - high) & ~0x1fffu);
}
#endif
