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

/// `v_dot4` of bytes with signs.
inline int dot4(int a, int b, int c) { return __dp4a(a, b, c); }

/// What a lane brings to a product of matrices.
struct Operands {
    unsigned char a[32], b[32];
};
/// Of each thread, for a product and the next one: no lane is more than one ahead of its wavefront.
inline Operands operands[2][emulator::MOST_THREADS];
inline unsigned char products[emulator::MOST_THREADS];

/// Gives this lane's operands to a product of its wavefront; those of all lanes, once they are there.
template <class A>
RLX_UNSEEN inline const Operands* of_wavefront(const A& a, const A& b, int line) {
    static_assert(sizeof(A) <= 32, "an operand has up to 32 bytes a lane");
    unsigned self = emulator::block->now->number, first = self - self % RLX_WARP;
    Operands* all = operands[++products[self] % 2] + first;
    memcpy(all[emulator::lane()].a, &a, sizeof a);
    memcpy(all[emulator::lane()].b, &b, sizeof b);
    emulator::exchange(emulator::EVERY_LANE, products[self], line);
    return all;
}

struct Float {
    static double of(const unsigned char* at, unsigned i, bool) {
        float x;
        memcpy(&x, at + 4 * i, 4);
        return x;
    }
};
struct Half {
    /// `flushes`: numbers below 2^-14 are zeros.
    static double of(const unsigned char* at, unsigned i, bool flushes) {
        uint16_t bits;
        memcpy(&bits, at + 2 * i, 2);
        if (flushes && !(bits & 0x7c00)) return 0.0;
        return double(emulator::of_bits<_Float16>(bits));
    }
};
struct Bf16 {
    static double of(const unsigned char* at, unsigned i, bool flushes) {
        uint16_t bits;
        memcpy(&bits, at + 2 * i, 2);
        if (flushes && !(bits & 0x7f80)) return 0.0;
        return double(emulator::of_bits<float>(uint64_t(bits) << 16));
    }
};

/// Where AMD's matrix instructions have elements and sums. All have row l % 16 of a, and column l % 16 of b and of d,
/// in lane l. `v_mfma_f32_16x16x4f32`: element l / 16; rows 4 (l / 16) + i.
struct MfmaOf4 {
    static const unsigned LANES = 64, ELEMENTS = 4, SUMS = 4;
    static unsigned group(unsigned k) { return k; }
    static unsigned place(unsigned) { return 0; }
    static unsigned row(unsigned l, unsigned i) { return l / 16 * 4 + i; }
};
/// `v_mfma_f32_16x16x16_f16`, `v_mfma_f32_16x16x16bf16_1k`: elements 4 (l / 16) + i; rows likewise.
struct MfmaOf16 : MfmaOf4 {
    static const unsigned ELEMENTS = 16;
    static unsigned group(unsigned k) { return k / 4; }
    static unsigned place(unsigned k) { return k % 4; }
};
/// `v_wmma_f32_16x16x16_f16` and `_bf16` of RDNA 3: all 16 elements, the same in lanes l and l + 16; rows 2 i + l / 16.
struct WmmaOfRdna3 {
    static const unsigned LANES = 32, ELEMENTS = 16, SUMS = 8;
    static unsigned group(unsigned) { return 0; }
    static unsigned place(unsigned k) { return k; }
    static unsigned row(unsigned l, unsigned i) { return 2 * i + l / 16; }
};
/// The same of RDNA 4: elements 8 (l / 16) + i; rows likewise. Which of the 16 elements a place has is of no matter
/// where both operands have it at the same place: AMD's Composable Kernel has them as 8 (i / 4) + 4 (l / 16) + i % 4.
struct WmmaOfRdna4 : WmmaOfRdna3 {
    static unsigned group(unsigned k) { return k / 8; }
    static unsigned place(unsigned k) { return k % 8; }
    static unsigned row(unsigned l, unsigned i) { return l / 16 * 8 + i; }
};

template <class Layout, class Element, class A, class D>
RLX_UNSEEN inline D product(const A& a, const A& b, D d, bool flushes, int line) {
    static_assert(Layout::LANES == RLX_WARP, "the instruction is one of other wavefronts");
    static_assert(Layout::SUMS * 4 == sizeof(D), "the instruction has other sums");
    const Operands* all = of_wavefront(a, b, line);
    unsigned lane = emulator::lane(), column = lane % 16;
    if (Layout::group(15) == 0) {
        const Operands &one = all[lane], &other = all[lane ^ 16];
        if (memcmp(one.a, other.a, sizeof a) || memcmp(one.b, other.b, sizeof b)) {
            emulator::fail("lanes that are 16 apart bring different elements to a product");
        }
    }
    for (unsigned i = 0; i < Layout::SUMS; i++) {
        double sum = d[i];
        for (unsigned k = 0; k < Layout::ELEMENTS; k++) {
            unsigned from = 16 * Layout::group(k), at = Layout::place(k);
            sum += Element::of(all[from + Layout::row(lane, i)].a, at, flushes) *
                   Element::of(all[from + column].b, at, flushes);
        }
        d[i] = float(sum);
    }
    return d;
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
#define __builtin_amdgcn_sched_barrier(what) ((void)0)
#define __builtin_amdgcn_perm(high, low, which) gcn::bytes(high, low, which)
#define __builtin_amdgcn_alignbit(high, low, by) gcn::aligned(high, low, by)
#define __builtin_amdgcn_sdot4(a, b, c, clamps) gcn::dot4(a, b, c)
#define __builtin_amdgcn_sudot4(a_has_sign, a, b_has_sign, b, c, clamps) gcn::dot4(a, b, c)
// A kernel's text says whether its architecture is gfx90a, whose instructions take the smallest halves as zeros.
#define __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, d, cbsz, abid, blgp) \
    gcn::product<gcn::MfmaOf4, gcn::Float>(a, b, d, false, __LINE__)
#define __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, d, cbsz, abid, blgp) \
    gcn::product<gcn::MfmaOf16, gcn::Half>(a, b, d, GCN_FLUSHES, __LINE__)
#define __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, d, cbsz, abid, blgp) \
    gcn::product<gcn::MfmaOf16, gcn::Bf16>(a, b, d, GCN_FLUSHES, __LINE__)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, d) \
    gcn::product<gcn::WmmaOfRdna3, gcn::Half>(a, b, d, false, __LINE__)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, d) \
    gcn::product<gcn::WmmaOfRdna3, gcn::Bf16>(a, b, d, false, __LINE__)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, d) \
    gcn::product<gcn::WmmaOfRdna4, gcn::Half>(a, b, d, false, __LINE__)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, d) \
    gcn::product<gcn::WmmaOfRdna4, gcn::Bf16>(a, b, d, false, __LINE__)

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
