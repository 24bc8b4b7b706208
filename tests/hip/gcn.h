// AMD's builtins on top of the emulator, for `kernels/hip.cuh`: a text with that header in front compiles as C++ and
// runs on a CPU. What each does is in LLVM's "User Guide for AMDGPU Backend" and AMD's guides to its instruction sets.
#ifndef RLX_GCN
#define RLX_GCN
#include "cuda.h"

#undef RLX_EMULATOR
#undef RLX_KERNEL
// A kernel has C's linkage here, as AMD's compiler sees it.
#undef __global__
#define __global__

namespace gcn {

/// Set bits of a mask of 32 lanes from `first` on, below this lane.
inline unsigned below(unsigned mask, unsigned add, unsigned first) {
    unsigned lane = emulator::lane(), n = lane < first ? 0 : lane - first;
    return add + unsigned(__builtin_popcountll(uint64_t(mask) & ((1ull << (n < 32 ? n : 32)) - 1)));
}

/// `ds_bpermute_b32`: the word of the lane whose number, times four, is `at`.
inline int permuted(int at, int word, int line) {
    const uint64_t* seen = emulator::exchange(emulator::EVERY_LANE, uint32_t(word), line);
    return int(uint32_t(seen[unsigned(at) / 4 % RLX_WARP]));
}

/// `v_perm_b32`: bytes 0 to 3 are of the second operand.
inline unsigned bytes(unsigned high, unsigned low, unsigned which) {
    uint64_t all = uint64_t(high) << 32 | low;
    unsigned y = 0;
    for (unsigned i = 0; i < 32; i += 8) {
        unsigned from = which >> i & 255;
        if (from > 7) emulator::fail("v_perm_b32 of no byte");
        y |= unsigned(all >> 8 * from & 255) << i;
    }
    return y;
}

/// `v_alignbit_b32`.
inline unsigned aligned(unsigned high, unsigned low, unsigned by) {
    return unsigned((uint64_t(high) << 32 | low) >> (by & 31));
}

/// A lane's bit is whether its numbers differ.
template <int How>
inline uint64_t differ(unsigned a, unsigned b, int line) {
    static_assert(How == 33, "of comparisons only \"not equal\" is known");
    return emulator::ballot(emulator::EVERY_LANE, a != b, line);
}

template <class T>
constexpr char KIND = 'n';
template <class T>
constexpr char KIND<T*> = 'p';

/// A letter for each argument of a kernel: a pointer or a number.
template <class... A>
const char* kinds_of(void (*)(A...)) {
    static const char kinds[] = {KIND<A>..., 0};
    return kinds;
}

}  // namespace gcn

#define __builtin_amdgcn_mbcnt_lo(mask, add) gcn::below(mask, add, 0)
#define __builtin_amdgcn_mbcnt_hi(mask, add) gcn::below(mask, add, 32)
#define __builtin_amdgcn_ds_bpermute(at, word) gcn::permuted(at, word, __LINE__)
#define __builtin_amdgcn_uicmp(a, b, how) gcn::differ<how>(a, b, __LINE__)
#define __builtin_amdgcn_fence(order, scope) ((void)0)
#define __builtin_amdgcn_wave_barrier() ((void)emulator::exchange(emulator::EVERY_LANE, 0, __LINE__))
#define __builtin_amdgcn_perm(high, low, which) gcn::bytes(high, low, which)
#define __builtin_amdgcn_alignbit(high, low, by) gcn::aligned(high, low, by)

/// Behind a file of kernels: what the library that stands for AMD's asks for, and what a kernel's arguments are. No
/// kernel of AMD's starts before the one before it has ended.
#define RLX_KERNEL(name)                                                                  \
    extern "C" const emulator::Kernel* name##_kernel(emulator::Block* of) {               \
        auto body = [](void** at) {                                                       \
            emulator::is_behind_previous();                                               \
            emulator::call(name, at);                                                     \
        };                                                                                \
        static const emulator::Kernel kernel = {#name, body, RLX_WARP};                   \
        emulator::block = of;                                                             \
        return &kernel;                                                                   \
    }                                                                                     \
    extern "C" const char* name##_arguments() { return gcn::kinds_of(name); }
#endif
