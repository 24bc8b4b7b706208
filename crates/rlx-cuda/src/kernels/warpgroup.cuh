// Products of four warps beside each other (`wgmma`, cards of compute capability 9.0; PTX ISA, "Asynchronous warpgroup
// level matrix instructions"): of 64 rows, 16 a warp, by 16 of k, from registers, and 16 of k by 64 columns, from
// shared memory. They run while the threads do something else: sums and rows may be touched behind `finish_products`.
#if !defined(RLX_EMULATOR) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "only cards of 9.0 have products of four warps"
#endif

// Rows of 64 halves as these products read them. A row's eight parts of 16 bytes change places with its number, so that
// neither parts of one row nor one part of eight rows meet in a bank. Panels begin at multiples of 1,024 bytes.
#define PANEL_ROW 128u

__device__ __forceinline__ u8* part_of_panel(u8* panel, u32 row, u32 part) {
    return panel + row * PANEL_ROW + (part ^ row % 8) * 16;
}

#ifdef RLX_EMULATOR
typedef const u8* Columns;
#else
typedef u64 Columns;
#endif

// The second operand of a product, 16 of k by 64 columns: from this place of a panel on 64 rows, of which 16 elements
// are k, or 16 rows, which are k. `row` is a multiple of 8.
__device__ __forceinline__ Columns columns_of(const u8* panel, u32 row, u32 element) {
    const u8* at = panel + row * PANEL_ROW + element * 2;
#ifdef RLX_EMULATOR
    return at;
#else
    // Groups of eight rows are 1,024 bytes apart; parts change places by 128 bytes.
    return u64((shared_place(at) & 0x3ffffu) >> 4) | u64(1) << 16 | u64(1024 >> 4) << 32 | u64(1) << 62;
#endif
}

#ifdef RLX_EMULATOR
template <class T, bool RowsAreK>
__device__ __forceinline__ void multiply_group(float (*d)[4], const u32 (&a)[4], Columns b, bool add) {
    emulator::wgmma_m64n64k16(d, a, b, IS_BF16<T>, RowsAreK, add, __LINE__);
}
__device__ __forceinline__ void begin_products() {}
__device__ __forceinline__ void commit_products() {}
template <u32 Under>
__device__ __forceinline__ void finish_products() {}
template <u32 Count>
__device__ __forceinline__ void settle(float (&)[Count][4]) {}
#else
// d, eight blocks of 16 rows by 8 columns, = a b, and what it was before. RowsAreK: k is rows of the panel.
#define MULTIPLY_GROUP(type)                                                                                           \
    asm volatile(                                                                                                      \
        "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"                                                               \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                                                    \
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                     \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "                            \
        "{%32, %33, %34, %35}, %36, add, 1, 1, %38;\n}"                                                                \
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), \
          "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), \
          "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), \
          "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), \
          "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add)), "n"(int(RowsAreK)))
template <class T, bool RowsAreK>
__device__ __forceinline__ void multiply_group(float (*d)[4], const u32 (&a)[4], Columns b, bool add) {
    if (IS_BF16<T>) {
        MULTIPLY_GROUP("bf16");
    } else {
        MULTIPLY_GROUP("f16");
    }
}

// Registers and shared memory that were written stand for the products behind this line.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most so many of the groups that were committed are under way.
template <u32 Under>
__device__ __forceinline__ void finish_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Under) : "memory");
}

// Keeps the compiler from touching sums before this line.
template <u32 Count>
__device__ __forceinline__ void settle(float (&d)[Count][4]) {
#pragma unroll
    for (u32 i = 0; i < Count; i++) {
#pragma unroll
        for (u32 j = 0; j < 4; j++) asm volatile("" : "+f"(d[i][j])::"memory");
    }
}
#endif

// 16 bytes on their way to shared memory, or zeros.
__device__ __forceinline__ void copy_16(u8* to, const u8* from, bool is_there) {
#ifdef RLX_EMULATOR
    uint4 zero = {0, 0, 0, 0};
    *(uint4*)to = is_there ? *(const uint4*)from : zero;
#else
    u32 bytes = is_there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_place(to)), "l"(from), "r"(bytes)
                 : "memory");
#endif
}

__device__ __forceinline__ void commit_copies() {
#ifndef RLX_EMULATOR
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for this thread's copies but the last `Under` groups; what arrived is there for products behind the block's
// next barrier.
template <u32 Under>
__device__ __forceinline__ void finish_copies() {
#ifndef RLX_EMULATOR
    asm volatile("cp.async.wait_group %0;" ::"n"(Under) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
