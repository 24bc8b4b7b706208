// matmul      y[n] = epilogue(sum over k of x[k] * W[n, k]), for one row of x and up to four packed weights
// shapes      x f32[K]    W FORMAT[N, K]    y f32[N]    norm f32[K]: x is its RMS norm first
// bytes       W once; x from a cache once for each block and type
// launch      as matmul_stream: one block a processor, stages of ROWS rows in turn, SLOTS of them in a ring. Each of
//             WARPS warps has a share of k, with x as digits in registers. With a norm, one warp more sums its squares
// numerics    products and sums of a block of a weight are exact, of x rounded to 2^-30 of the block's largest number;
//             then f32: blocks in order, four lanes, warps in order; the norm's root multiplies the sum
#ifdef GLU
#define WEIGHTS 2
#else
#define WEIGHTS 1
#endif
// The warp that asks for stages and finishes results.
#ifdef NORM
#define SERVER WARPS
#else
#define SERVER 0u
#endif

// Asks for a stage's rows.
template <class F>
__device__ __forceinline__ void fetch(const Segment s, u32 block, u8* slot, u64* barrier) {
    u32 first = block * ROWS, count = min(s.n - first, ROWS), stride = stride_of<F>(s.row_bytes);
    if (threadIdx.x % 32 == 0) begin_round(barrier, count * WEIGHTS * s.row_bytes);
    for (u32 i = threadIdx.x % 32; i < ROWS * WEIGHTS; i += 32) {
        const u8* w = i < ROWS ? s.w : s.up;
        if (i % ROWS < count) copy_bulk(slot + i * stride, w + size_t(first + i % ROWS) * s.row_bytes, s.row_bytes, barrier);
    }
}

KERNEL_OF(matmul_digits, THREADS)(PARAMETERS) {
#ifndef NORM
    const float* norm = nullptr;
#endif
    SHARED_BYTES(ring);
    __shared__ __align__(8) u64 barriers[SLOTS];
    // Stages take turns with them, so that one barrier a stage is enough.
    __shared__ float parts[2][WEIGHTS][WARPS][ROWS];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Where all warps multiply the compiler should know it: it then asks for all of x at once.
    const bool multiplies = SERVER == 0 || warp < WARPS;
    u32 stages = (STAGES - 1 - blockIdx.x) / gridDim.x + 1;
    auto ask = [&](u32 stage) {
        u32 block = blockIdx.x + stage * gridDim.x, slot = stage % SLOTS;
#define COMPUTE(F, ...) fetch<F>(Segment{__VA_ARGS__}, block, ring + slot * SLOT_BYTES, barriers + slot)
        SEGMENTS
#undef COMPUTE
    };
    if (threadIdx.x == SERVER * 32) make_barriers(barriers, SLOTS);
    __syncthreads();
    if (warp == SERVER) {
        for (u32 stage = 0; stage < min(SLOTS, stages); stage++) ask(stage);
    }
    __syncthreads();
    wait_for_previous();
    float root = 1.0f;
#ifdef NORM
    if (warp == SERVER) {
        float square = 0.0f;
#pragma unroll 16
        for (u32 k = lane * 4; k < K; k += 128) {
            float4 four = *(const float4*)(x + k);
            square = fmaf(four.x, four.x, fmaf(four.y, four.y, fmaf(four.z, four.z, fmaf(four.w, four.w, square))));
        }
        root = rsqrtf(warp_sum(square) / float(K) + EPS);
    }
#endif
    u32 stage = 0, block = blockIdx.x;
    // This block's stages of one weight.
    auto compute = [&](auto named, const Segment s, u32 blocks) {
        typedef typename decltype(named)::Type F;
        if (block < blocks) {
            const u32 stride = stride_of<F>(s.row_bytes);
            Digits<F> digits;
            if (multiplies) digits.load(x, norm);
            for (; block < blocks; block += gridDim.x, stage++) {
                u32 turn = stage % 2;
                if (multiplies) {
                    wait_for_round(barriers + stage % SLOTS, stage / SLOTS);
                    const u8* slot = ring + stage % SLOTS * SLOT_BYTES;
#pragma unroll
                    for (u32 i = 0; i < WEIGHTS * ROWS / 16; i++) {
                        float sums[2];
                        digits.product(slot + i * 16 * stride, stride, sums);
                        float* to = parts[turn][i * 16 / ROWS][warp] + i * 16 % ROWS + lane / 4;
                        if (lane % 4 == 0) to[0] = sums[0], to[8] = sums[1];
                    }
                }
                // Behind it all sums are there, and the slot is read no more.
                __syncthreads();
                if (warp == SERVER) {
                    if (stage + SLOTS < stages) ask(stage + SLOTS);
                    u32 n = block * ROWS + lane;
                    if (lane < ROWS && n < s.n) {
                        float v = 0.0f, u = 0.0f;
#pragma unroll
                        for (u32 i = 0; i < WARPS; i++) v += parts[turn][0][i][lane];
                        v *= root;
#ifdef GLU
#pragma unroll
                        for (u32 i = 0; i < WARPS; i++) u += parts[turn][1][i][lane];
                        u *= root;
#endif
                        s.y[n] = EPILOGUE(v, u, 0, n);
                    }
                }
                // With a ring of one stage the next one is asked for only now: no warp may wait for it before.
                if (SLOTS == 1 && stage + 1 < stages) __syncthreads();
            }
        }
        block -= blocks;
    };
#undef SEGMENT
#define SEGMENT(F, BLOCKS, ...) compute(Named<F>(), Segment{__VA_ARGS__}, BLOCKS);
    SEGMENTS
}
