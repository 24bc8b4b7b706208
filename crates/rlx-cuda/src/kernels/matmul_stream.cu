// matmul      y[n] = epilogue(sum over k of x[k] * W[n, k]), for one row of x and up to four weights
// shapes      x f32[K]    W FORMAT[N, K]    y f32[N]    norm f32[K]: x is its RMS norm first    K a multiple of 32
// bytes       W once; x from a cache once for each block and weight
// launch      as many blocks of THREADS as run at once, each of which takes stages of COLUMNS columns in turn. What it
//             takes next is on its way to a ring of SLOTS stages in shared memory, from before the kernel waits for the
//             one before it. Groups of LANES have EACH columns of a stage, a lane 32 elements of k in each of STEPS
//             steps, whose x it keeps in registers
// numerics    f32; a sum for each lane in order of k, then a tree for each warp, then warps in order; the norm's root
//             multiplies the sum
#define WARPS (LANES / WARP)
#ifndef GLU
#define UP_FORMAT F
#endif

#ifdef NORM
// What each warp has of the sum of x's squares.
__device__ __forceinline__ void put_squares(const float* __restrict__ x, float* squares) {
    float square = 0.0f;
    for (u32 k = threadIdx.x * 4; k < K; k += THREADS * 4) {
        float4 four = *(const float4*)(x + k);
        square = fmaf(four.x, four.x, fmaf(four.y, four.y, fmaf(four.z, four.z, fmaf(four.w, four.w, square))));
    }
    square = warp_sum(square);
    if (threadIdx.x % WARP == 0) squares[threadIdx.x / WARP] = square;
}
#endif

// Asks for a stage's rows of a weight.
__device__ __forceinline__ void fetch(const Segment s, u32 block, u8* slot, u64* barrier) {
    u32 first = block * COLUMNS, count = min(s.n - first, COLUMNS);
#ifdef GLU
    begin_round(barrier, count * (s.row_bytes + UP_ROW_BYTES));
    copy_bulk(slot + COLUMNS * s.row_bytes, s.up + size_t(first) * UP_ROW_BYTES, count * UP_ROW_BYTES, barrier);
#else
    begin_round(barrier, count * s.row_bytes);
#endif
    copy_bulk(slot, s.w + size_t(first) * s.row_bytes, count * s.row_bytes, barrier);
}

KERNEL_OF(matmul_stream, THREADS)(PARAMETERS) {
#ifndef NORM
    const float* norm = nullptr;
#endif
    SHARED_BYTES(ring);
    __shared__ __align__(8) u64 barriers[SLOTS];
    // Stages take turns with them, so that one barrier a stage is enough.
    __shared__ float parts[2][THREADS / WARP][EACH];
#ifdef GLU
    __shared__ float up_parts[2][THREADS / WARP][EACH];
#else
    float (*const up_parts[2])[EACH] = {};
#endif
    u32 stages = (STAGES - 1 - blockIdx.x) / gridDim.x + 1;
    auto ask = [&](u32 stage) {
        u32 block = blockIdx.x + stage * gridDim.x, slot = stage % SLOTS;
#define COMPUTE(F, ...) fetch(Segment{__VA_ARGS__}, block, ring + slot * SLOT_BYTES, barriers + slot)
        SEGMENTS
#undef COMPUTE
    };
    if (threadIdx.x == 0) {
        make_barriers(barriers, SLOTS);
        for (u32 stage = 0; stage < min(SLOTS, stages); stage++) ask(stage);
    }
    __syncthreads();
    wait_for_previous();
    u32 lane = threadIdx.x % LANES;
    float root = 1.0f;
#ifdef NORM
    __shared__ float squares[THREADS / WARP];
    put_squares(x, squares);
#endif
    u32 stage = 0, block = blockIdx.x;
    // This block's stages of one weight.
    auto compute = [&](auto named, const Segment s, u32 blocks) {
        typedef typename decltype(named)::Type F;
        if (block < blocks) {
            const Pair<F, UP_FORMAT> of(x, norm, lane);
            for (; block < blocks; block += gridDim.x, stage++) {
                wait_for_round(barriers + stage % SLOTS, stage / SLOTS);
                u32 first = block * COLUMNS, turn = stage % 2;
                put_stage(of, ring + stage % SLOTS * SLOT_BYTES, s.row_bytes, parts[turn], up_parts[turn]);
                // Behind it all sums are there, and the slot is read no more.
                __syncthreads();
                if (threadIdx.x == 0 && stage + SLOTS < stages) ask(stage + SLOTS);
#ifdef NORM
                if (stage == 0) {
                    float square = 0.0f;
                    for (u32 i = 0; i < THREADS / WARP; i++) square += squares[i];
                    root = rsqrtf(square / float(K) + EPS);
                }
#endif
                u32 n = first + threadIdx.x, from = threadIdx.x / EACH * WARPS, c = threadIdx.x % EACH;
                if (threadIdx.x < COLUMNS && n < s.n) {
                    float v = all_of<WARPS>(parts[turn] + from, c) * root, u = 0.0f;
#ifdef GLU
                    u = all_of<WARPS>(up_parts[turn] + from, c) * root;
#endif
                    s.y[n] = EPILOGUE(v, u, 0, n);
                }
            }
        }
        block -= blocks;
    };
#undef SEGMENT
#define SEGMENT(F, BLOCKS, ...) compute(Named<F>(), Segment{__VA_ARGS__}, BLOCKS);
    SEGMENTS
}
