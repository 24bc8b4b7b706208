// matmul      y[n] = epilogue(sum over k of x[k] * W[n, k]), for one row of x and up to four weights
// shapes      x f32[K]    W FORMAT[N, K]    y f32[N]    norm f32[K]: x is its RMS norm first    K a multiple of 32
// bytes       W once; x from a cache once for each block, from shared memory for each COLUMNS columns
// launch      a block of THREADS is groups of LANES, each of which is COLUMNS columns of one weight: its lanes take 32
//             elements of k each in turn
// numerics    f32; a sum for each lane in order of k, then a tree for each warp, then warps in order; the norm's root
//             multiplies the sum
#define WARPS (LANES / WARP)
#define GROUPS (THREADS / LANES)

template <class A, class B>
constexpr bool IS_SAME = false;
template <class A>
constexpr bool IS_SAME<A, A> = true;

// Four elements of x, times the norm's weights, whose squares are added up.
__device__ __forceinline__ float4 normed(const float* __restrict__ x, const float* __restrict__ norm, u32 at,
                                         float& square) {
    float4 four = *(const float4*)(x + at);
#ifdef NORM
    float4 by = *(const float4*)(norm + at);
    square = fmaf(four.x, four.x, fmaf(four.y, four.y, fmaf(four.z, four.z, fmaf(four.w, four.w, square))));
    four.x *= by.x, four.y *= by.y, four.z *= by.z, four.w *= by.w;
#endif
    return four;
}

// A step of several groups: LANES times 32 elements of x, which stand by fours in the order in which `Wide` has those of a
// lane. One more column keeps what is put at once in different banks.
#define FOURS 8
typedef float4 Step[FOURS][LANES + 1];

// Puts a step of x, times the norm's weights, where every group reads it, and adds up its squares.
template <class F>
__device__ __forceinline__ void put_step(const float* __restrict__ x, const float* __restrict__ norm, u32 from,
                                         Step& step, float& square) {
    for (u32 i = threadIdx.x; i < LANES * FOURS; i += THREADS) {
        u32 lane = i / FOURS, j = i % FOURS, t = from + lane;
        if (t >= K / 32) break;
        u32 at = Wide<F>::at(t, 4 * j / Wide<F>::CHUNK) + 4 * j % Wide<F>::CHUNK;
        step[j][lane] = normed(x, norm, at, square);
    }
}

// Adds the lane's products of x with the group's columns of a weight, and of a second one of this type, if there is one.
// Columns past the last are the last. `square` gets the squares of the elements that this thread has read.
template <class F, bool Both>
__device__ __forceinline__ void add_products(const float* __restrict__ x, const float* __restrict__ norm,
                                             const u8* __restrict__ w, const u8* __restrict__ up, u32 row_bytes, u32 last,
                                             u32 lane, float* sums, float* ups, float& square) {
#if GROUPS > 1
    __shared__ Step step;
#endif
    const u32 chunk = Wide<F>::CHUNK;
    for (u32 from = 0; from < K / 32; from += LANES) {
#if GROUPS > 1
        // What the step before has put is read no more.
        __syncthreads();
        put_step<F>(x, norm, from, step, square);
        __syncthreads();
#endif
        u32 t = from + lane;
        if (t >= K / 32) continue;
        float v[32], totals[32 / chunk];
#pragma unroll
        for (u32 c = 0; c < 32 / chunk; c++) {
            u32 at = Wide<F>::at(t, c);
            totals[c] = 0.0f;
#pragma unroll
            for (u32 i = 0; i < chunk; i += 4) {
#if GROUPS > 1
                float4 four = step[(c * chunk + i) / 4][lane];
#else
                float4 four = normed(x, norm, at + i, square);
#endif
                float* to = v + c * chunk + i;
                to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
                totals[c] += (four.x + four.y) + (four.z + four.w);
            }
        }
#pragma unroll
        for (u32 c = 0; c < COLUMNS; c++) {
            size_t row = size_t(min(c, last)) * row_bytes;
            sums[c] += Wide<F>::sum(w + row, t, v, totals);
            if (Both) ups[c] += Wide<F>::sum(up + row, t, v, totals);
        }
    }
}

template <class F>
__device__ __forceinline__ void columns(u32 block, const float* __restrict__ x, const float* __restrict__ norm,
                                        const Segment s) {
    __shared__ float parts[THREADS / WARP][COLUMNS];
    u32 first = block * (COLUMNS * GROUPS), of_block = min(s.n - first, COLUMNS * GROUPS);
    fetch_ahead(s.w + size_t(first) * s.row_bytes, of_block * s.row_bytes);
#ifdef GLU
    fetch_ahead(s.up + size_t(first) * UP_ROW_BYTES, of_block * UP_ROW_BYTES);
#endif
    wait_for_previous();
    u32 group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    // A group behind the last column computes it once more.
    u32 n0 = min(first + group * COLUMNS, s.n - 1), last = s.n - 1 - n0;
    const u8* w = s.w + size_t(n0) * s.row_bytes;
    float sums[COLUMNS] = {}, square = 0.0f;
#ifdef GLU
    __shared__ float up_parts[THREADS / WARP][COLUMNS];
    const u8* up = s.up + size_t(n0) * UP_ROW_BYTES;
    float ups[COLUMNS] = {}, again = 0.0f;
    if constexpr (IS_SAME<F, UP_FORMAT>) {
        add_products<F, true>(x, norm, w, up, s.row_bytes, last, lane, sums, ups, square);
    } else {
        add_products<F, false>(x, norm, w, w, s.row_bytes, last, lane, sums, sums, square);
        add_products<UP_FORMAT, false>(x, norm, up, up, UP_ROW_BYTES, last, lane, ups, ups, again);
    }
    put_sums<COLUMNS>(ups, up_parts);
#else
    add_products<F, false>(x, norm, w, w, s.row_bytes, last, lane, sums, sums, square);
#endif
    put_sums<COLUMNS>(sums, parts);
#ifdef NORM
    __shared__ float square_parts[THREADS / WARP][1];
    put_sums<1>(&square, square_parts);
#endif
    __syncthreads();
    u32 n = first + group * COLUMNS + lane;
    if (lane >= COLUMNS || n >= s.n) return;
    float v = all_of<WARPS>(parts + group * WARPS, lane), u = 0.0f;
#ifdef GLU
    u = all_of<WARPS>(up_parts + group * WARPS, lane);
#endif
#ifdef NORM
    float scale = rsqrtf(all_of<THREADS / WARP>(square_parts, 0) / float(K) + EPS);
    v *= scale;
    u *= scale;
#endif
    s.y[n] = EPILOGUE(v, u, 0, n);
}

KERNEL_OF(matmul_one, THREADS)(PARAMETERS) {
#ifndef NORM
    const float* norm = nullptr;
#endif
    u32 block = blockIdx.x;
#define COMPUTE(F, ...) columns<F>(block, x, norm, Segment{__VA_ARGS__})
    SEGMENTS
}
