// Products of 16-bit floats by tensor cores, with sums in f32, and how their operands come from shared memory.
// Rows that lie 16 bytes apart in banks: reads of 8 rows meet no bank twice.
template <u32 Count, u32 Length>
using Rows16 = u16[Count][Length + 8];

__device__ __forceinline__ u32 pair(u16 low, u16 high) { return u32(low) | u32(high) << 16; }

// Two floats as halves, rounded to the nearest.
__device__ __forceinline__ u32 halves_of(float low, float high) {
#if defined(RLX_EMULATOR) || defined(RLX_HIP) || __CUDA_ARCH__ < 800
    return pair(half_of_float(low), half_of_float(high));
#else
    u32 y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
#endif
}

// The type of a product's operands.
struct F16;
struct Bf16;

#if WARP == 32 && (defined(RLX_EMULATOR) || __CUDA_ARCH__ >= 800)
#define HAS_HALVES
template <class T>
constexpr bool IS_BF16 = false;
template <>
constexpr bool IS_BF16<Bf16> = true;

// d += a b, of 16 rows by 16 of k, and 16 of k by 8 columns; PTX ISA, "Matrix fragments for mma.m16n8k16".
template <class T>
__device__ __forceinline__ void multiply(float d[4], const u32 a[4], const u32 b[2]) {
#ifdef RLX_EMULATOR
    emulator::mma_m16n8k16(d, a, b, IS_BF16<T>, __LINE__);
#else
    if (IS_BF16<T>) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
#endif
}

// What a lane has of 16 rows by 16 elements, as a of a product.
template <u32 Count, u32 Length>
__device__ __forceinline__ void of_rows(u32 a[4], const u16 (&of)[Count][Length], u32 row, u32 element) {
    u32 lane = threadIdx.x % 32;
#ifdef RLX_EMULATOR
    for (u32 i = 0; i < 4; i++) a[i] = *(const u32*)&of[row + i % 2 * 8 + lane / 4][element + i / 2 * 8 + lane % 4 * 2];
#else
    u32 at = u32(__cvta_generic_to_shared(&of[row + lane % 16][element + lane / 16 * 8]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at));
#endif
}

// What a lane has of 16 rows by 16 elements, as b of two products whose k is elements and whose columns are rows. PTX
// ISA, "ldmatrix": lanes give the places of rows of 8 matrices' elements.
template <u32 Count, u32 Length>
__device__ __forceinline__ void along_columns(u32 b[4], const u16 (&of)[Count][Length], u32 row, u32 element) {
    u32 lane = threadIdx.x % 32;
#ifdef RLX_EMULATOR
    for (u32 i = 0; i < 4; i++) b[i] = *(const u32*)&of[row + i / 2 * 8 + lane / 4][element + i % 2 * 8 + lane % 4 * 2];
#else
    u32 at = u32(__cvta_generic_to_shared(&of[row + lane / 16 * 8 + lane % 8][element + lane / 8 % 2 * 8]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(at));
#endif
}

// The same where k is rows and columns are elements.
template <u32 Count, u32 Length>
__device__ __forceinline__ void along_rows(u32 b[4], const u16 (&of)[Count][Length], u32 row, u32 element) {
    u32 lane = threadIdx.x % 32;
#ifdef RLX_EMULATOR
    for (u32 i = 0; i < 4; i++) {
        u32 r = row + i % 2 * 8 + lane % 4 * 2, e = element + i / 2 * 8 + lane / 4;
        b[i] = pair(of[r][e], of[r + 1][e]);
    }
#else
    u32 at = u32(__cvta_generic_to_shared(&of[row + lane / 8 % 2 * 8 + lane % 8][element + lane / 16 * 8]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(at));
#endif
}
#endif
