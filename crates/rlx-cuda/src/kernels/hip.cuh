// What stands in front of a text for AMD's compiler (hiprtc): the words of CUDA C that HIP lacks, or means otherwise.
// The driver defines RLX_WARP, lanes of a wavefront. Words are macros, so that those of them that a version of HIP has
// are these all the same. LLVM, "User Guide for AMDGPU Backend", has what the builtins do.
#define RLX_HIP 1
#if defined(__AMDGCN_WAVEFRONT_SIZE) && __AMDGCN_WAVEFRONT_SIZE != RLX_WARP
#error "wavefronts have other lanes than the driver says"
#endif

namespace hip {

template <class To, class From>
__device__ __forceinline__ To of_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits of one size");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

__device__ __forceinline__ unsigned lane() {
    unsigned below = __builtin_amdgcn_mbcnt_lo(~0u, 0u);
    return RLX_WARP == 64 ? __builtin_amdgcn_mbcnt_hi(~0u, below) : below;
}

// The word that a lane has. Every lane of the wavefront comes here, as masks of all lanes say.
__device__ __forceinline__ int word_of(unsigned lane, int word) {
    return __builtin_amdgcn_ds_bpermute(int(lane % RLX_WARP) * 4, word);
}

template <class T>
__device__ __forceinline__ T from_lane(T x, unsigned lane) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "an exchange has a word a lane, or two");
    if constexpr (sizeof(T) == 4) {
        return of_bits<T>(word_of(lane, of_bits<int>(x)));
    } else {
        unsigned long long bits = of_bits<unsigned long long>(x);
        unsigned low = unsigned(word_of(lane, int(bits))), high = unsigned(word_of(lane, int(bits >> 32)));
        return of_bits<T>((unsigned long long)high << 32 | low);
    }
}

// Lanes at the end of a wavefront keep what they have.
template <class T>
__device__ __forceinline__ T down(T x, unsigned by) {
    unsigned self = lane();
    return from_lane(x, self + by < RLX_WARP ? self + by : self);
}

// Bit i is lane i's.
__device__ __forceinline__ unsigned long long ballot(bool yes) {
    // 33 is "not equal", as LLVM's `CmpInst::Predicate` numbers it.
    return __builtin_amdgcn_uicmp(unsigned(yes), 0u, 33);
}

__device__ __forceinline__ void wavefront_meets() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// Bytes by number, as CUDA's function has them: 0 to 3 are of a, 4 to 7 of b.
__device__ __forceinline__ unsigned bytes_of(unsigned a, unsigned b, unsigned which) {
    // The instruction has a number of 8 bits for each.
    unsigned x = which & 0x7777u;
    x = (x | x << 8) & 0x00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0fu;
    return __builtin_amdgcn_perm(b, a, x);
}

__device__ __forceinline__ unsigned shifted(unsigned low, unsigned high, unsigned by) {
    return __builtin_amdgcn_alignbit(high, low, by & 31u);
}

// The sum of four products of bytes, which have signs.
__device__ __forceinline__ int dot4(int a, int b, int c) {
#if defined(__GFX11__) || defined(__GFX12__)
    return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#elif defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx1030__)
    return __builtin_amdgcn_sdot4(a, b, c, false);
#else
    for (int i = 0; i < 32; i += 8) c += int((signed char)(a >> i)) * int((signed char)(b >> i));
    return c;
#endif
}

// The driver has turned off that a product and a sum become one `fma`, so that each of these rounds.
__device__ __forceinline__ float product(float a, float b) { return a * b; }
__device__ __forceinline__ float sum(float a, float b) { return a + b; }

__device__ __forceinline__ float float_of_half(unsigned short x) { return float(of_bits<_Float16>(x)); }
__device__ __forceinline__ unsigned short half_of_float(float x) { return of_bits<unsigned short>(_Float16(x)); }

}  // namespace hip

#undef __shfl_sync
#undef __shfl_xor_sync
#undef __shfl_down_sync
#undef __ballot_sync
#undef __any_sync
#undef __all_sync
#undef __syncwarp
#undef __ldg
#undef __ldcg
#define __shfl_sync(mask, x, of) hip::from_lane(x, unsigned(of))
#define __shfl_xor_sync(mask, x, by) hip::from_lane(x, hip::lane() ^ unsigned(by))
#define __shfl_down_sync(mask, x, by) hip::down(x, unsigned(by))
#define __ballot_sync(mask, yes) hip::ballot(yes)
#define __any_sync(mask, yes) (hip::ballot(yes) != 0)
#define __all_sync(mask, yes) (hip::ballot(!(yes)) == 0)
#define __syncwarp(...) hip::wavefront_meets()
#define __byte_perm(a, b, which) hip::bytes_of(a, b, which)
#define __funnelshift_r(low, high, by) hip::shifted(low, high, by)
#define __dp4a(a, b, c) hip::dot4(a, b, c)
#define __fmul_rn(a, b) hip::product(a, b)
#define __fadd_rn(a, b) hip::sum(a, b)
// Fences make what other blocks wrote visible; there is no load past the first cache to name.
#define __ldg(at) (*(at))
#define __ldcg(at) (*(at))
