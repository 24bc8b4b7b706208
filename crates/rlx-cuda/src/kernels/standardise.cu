// standardise y = (x - mean) / sqrt(variance + eps) * scale + bias, of each run
// shapes      x, y T[RUNS, N]    scale, bias WEIGHT, of which CHANNEL says the element
// bytes       x once where threads keep it (KEPT of WIDTH elements each), else three times; y once
// launch      a run has a warp of a block of THREADS, or the block
// numerics    f32; the variance is of differences from the mean; a sum for each thread, then warps in order
#if IS_WARP
#define LANES u32(WARP)
#define TEAMS (THREADS / WARP)
#define TEAM_SUM warp_sum
#else
#define LANES THREADS
#define TEAMS 1
#define TEAM_SUM block_sum<THREADS>
#endif
// Of a run that threads keep, 64 lanes have half of the loads of 32; the others are behind its end.
struct __align__(sizeof(T) * WIDTH) Load {
    T of[WIDTH];
};

// The elements from c on.
__device__ __forceinline__ void load(const T* x, u32 c, float v[WIDTH]) {
    Load four = *(const Load*)(x + c);
#pragma unroll
    for (u32 i = 0; i < WIDTH; i++) v[i] = value_of(four.of[i]);
}

KERNEL(standardise)(const T* x, T* y, const WEIGHT* __restrict__ scale
#ifdef BIAS
                    , const WEIGHT* __restrict__ bias
#endif
) {
    wait_for_previous();
    u32 lane = threadIdx.x % LANES;
    for (u32 run = blockIdx.x * TEAMS + threadIdx.x / LANES; run < RUNS; run += gridDim.x * TEAMS) {
        const T* from = x + size_t(run) * N;
        T* to = y + size_t(run) * N;
        float sum = 0.0f, squares = 0.0f;
#if KEPT
        float kept[KEPT][WIDTH];
#pragma unroll
        for (u32 e = 0; e < KEPT; e++) {
            u32 c = (e * LANES + lane) * WIDTH;
            if (c < N) load(from, c, kept[e]);
        }
#define VALUES(e, c) float* v = kept[e]
#define STEPS for (u32 e = 0; e < KEPT; e++)
#else
#define VALUES(e, c) \
    float v[WIDTH];  \
    load(from, c, v)
#define STEPS for (u32 e = 0; e < (N + LANES * WIDTH - 1) / (LANES * WIDTH); e++)
#endif
#pragma unroll
        STEPS {
            u32 c = (e * LANES + lane) * WIDTH;
            if (c >= N) continue;
            VALUES(e, c);
#pragma unroll
            for (u32 i = 0; i < WIDTH; i++) sum += v[i];
        }
        float mean = TEAM_SUM(sum) / float(N);
#pragma unroll
        STEPS {
            u32 c = (e * LANES + lane) * WIDTH;
            if (c >= N) continue;
            VALUES(e, c);
#pragma unroll
            for (u32 i = 0; i < WIDTH; i++) squares = fmaf(v[i] - mean, v[i] - mean, squares);
        }
        float inverse = rsqrtf(TEAM_SUM(squares) / float(N) + EPS);
#pragma unroll
        STEPS {
            u32 c = (e * LANES + lane) * WIDTH;
            if (c >= N) continue;
            VALUES(e, c);
            Load out;
#pragma unroll
            for (u32 i = 0; i < WIDTH; i++) {
                u32 at = CHANNEL(run, c + i);
                float one = (v[i] - mean) * inverse * value_of(scale[at]);
#ifdef BIAS
                one += value_of(bias[at]);
#endif
                out.of[i] = rounded_to<T>(one);
            }
            *(Load*)(to + c) = out;
        }
    }
}
