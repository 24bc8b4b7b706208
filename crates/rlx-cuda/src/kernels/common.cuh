// What every kernel begins with: the word KERNEL, small types, conversions and sums of warps and blocks.
typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// The second has blocks of so many threads, which bounds the registers of each.
#ifdef RLX_EMULATOR
#define KERNEL(name) static void name
#define KERNEL_OF(name, threads) static void name
#define WARP RLX_WARP
#elif defined(RLX_HIP)
// AMD's compiler would leave registers for 1,024 threads where a kernel does not say how many it has.
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) name
#define KERNEL_OF(name, threads) extern "C" __global__ void __launch_bounds__(threads) name
#define WARP RLX_WARP
#else
#define KERNEL(name) extern "C" __global__ void name
#define KERNEL_OF(name, threads) extern "C" __global__ void __launch_bounds__(threads) name
#define WARP 32
#endif
#if WARP == 64
#define ALL_LANES 0xffffffffffffffffull
#else
#define ALL_LANES 0xffffffffu
#endif

#define MINUS_INFINITY __uint_as_float(0xff800000u)

__device__ __forceinline__ float float_of_half(u16 x) {
#ifdef RLX_EMULATOR
    return float(emulator::of_bits<_Float16>(x));
#elif defined(RLX_HIP)
    return hip::float_of_half(x);
#else
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
#endif
}

// Rounds to the nearest, ties to even.
__device__ __forceinline__ u16 half_of_float(float x) {
#ifdef RLX_EMULATOR
    return u16(emulator::bits_of(_Float16(x)));
#elif defined(RLX_HIP)
    return hip::half_of_float(x);
#else
    u16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#endif
}

__device__ __forceinline__ float float_of_bf16(u16 x) { return __uint_as_float(u32(x) << 16); }

// A half that stands anywhere: blocks of packed weights begin at any even byte.
__device__ __forceinline__ float half_at(const u8* at) { return float_of_half(*(const u16*)at); }

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (u32 by = WARP / 2; by > 0; by /= 2) x += __shfl_xor_sync(ALL_LANES, x, by);
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (u32 by = WARP / 2; by > 0; by /= 2) x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, by));
    return x;
}

// The sum of a block of THREADS threads, in every thread. Warps are added in order.
template <u32 THREADS>
__device__ __forceinline__ float block_sum(float x) {
    __shared__ float parts[THREADS / WARP];
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = x;
    __syncthreads();
    float all = 0.0f;
#pragma unroll
    for (u32 i = 0; i < THREADS / WARP; i++) all += parts[i];
    return all;
}

// Kernels start while the one before them runs, on cards that can: what it writes may be read, and what it reads
// written, behind this line. Every thread of every kernel comes here first.
__device__ __forceinline__ void wait_for_previous() {
#ifdef RLX_EMULATOR
    emulator::is_behind_previous();
#elif __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Asks for bytes of weights, which no kernel writes, while the kernel before this one runs. All threads of a block do.
__device__ __forceinline__ void fetch_ahead(const u8* at, u32 bytes) {
#if __CUDA_ARCH__ >= 900
    for (u32 i = threadIdx.x * 128; i < bytes; i += blockDim.x * 128) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"(at + i));
    }
#endif
}
