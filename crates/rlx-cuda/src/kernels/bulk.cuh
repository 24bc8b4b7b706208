// Bytes on their way from memory to a block's shared memory, while its threads do something else (`cp.async.bulk`;
// PTX ISA, "Asynchronous copy" and "mbarrier"). Places and counts are multiples of 16. A barrier counts the bytes of a
// round; one thread begins it, any may ask for copies, all may wait. In the emulator a copy is done at once: what waits
// comes behind a barrier of the block.
#if !defined(RLX_EMULATOR) && __CUDA_ARCH__ < 900
#error "cards before 9.0 have no bulk copies"
#endif
#ifdef RLX_EMULATOR
#define SHARED_BYTES(name) __shared__ __align__(1024) u8 name[SHARED]
#else
// A launch says how many there are: SHARED.
#define SHARED_BYTES(name) extern __shared__ __align__(1024) u8 name[]
__device__ __forceinline__ u32 shared_place(const void* at) { return u32(__cvta_generic_to_shared(at)); }
#endif

// Before the first round, by the thread that begins it; the block's next barrier shows it to the others.
__device__ __forceinline__ void make_barriers(u64* barriers, u32 count) {
#ifdef RLX_EMULATOR
    for (u32 i = 0; i < count; i++) barriers[i] = 0;
#else
    for (u32 i = 0; i < count; i++) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_place(barriers + i)) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
#endif
}

// Begins a round of so many bytes.
__device__ __forceinline__ void begin_round(u64* barrier, u32 bytes) {
#ifdef RLX_EMULATOR
    __atomic_fetch_add(barrier, u64(bytes), __ATOMIC_SEQ_CST);
#else
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_place(barrier)), "r"(bytes)
                 : "memory");
#endif
}

__device__ __forceinline__ void copy_bulk(u8* to, const u8* from, u32 bytes, u64* barrier) {
#ifdef RLX_EMULATOR
    if ((size_t(to) | size_t(from) | bytes) % 16 != 0) emulator::fail("a bulk copy of no whole 16 bytes");
    for (u32 i = 0; i < bytes; i += 16) *(uint4*)(to + i) = *(const uint4*)(from + i);
    __atomic_fetch_sub(barrier, u64(bytes), __ATOMIC_SEQ_CST);
#else
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_place(to)),
                 "l"(from), "r"(bytes), "r"(shared_place(barrier))
                 : "memory");
#endif
}

// Waits for the bytes of a round; rounds of a barrier are counted from 0.
__device__ __forceinline__ void wait_for_round(u64* barrier, u32 round) {
#ifdef RLX_EMULATOR
    if (__atomic_load_n(barrier, __ATOMIC_SEQ_CST) != 0) emulator::fail("a round waits for bytes that nobody copies");
#else
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(shared_place(barrier)),
        "r"(round & 1)
        : "memory");
#endif
}
