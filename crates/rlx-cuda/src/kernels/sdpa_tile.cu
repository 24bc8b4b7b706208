// sdpa        y[b, i, h] = softmax(mask(cap(scale q[b, i, h] k[b, :, h / GROUP]^T))) v[b, :, h / GROUP]
//             arXiv:2205.14135
// shapes      q T[B, QUERIES, HEADS, HEAD]    k T[B, KEYS, KV, HEAD]    v T[B, KEYS, KV, WIDTH]    y T as q, WIDTH wide
// bytes       q and y once; k and v for each 64 queries of each head
// launch      a block of 4 warps is 64 queries of a head, 16 of a warp; keys come by TILE to shared memory
// numerics    tensor cores' numbers of 11 bits: f32 is two of them and a product three of theirs, halves are one, and
//             the weights of halves are rounded to one; sums in f32, an online softmax by TILE keys; rounded once.
//             AMD's cards have sdpa_tile_amd.cuh
#ifdef HAS_TF32
// Reads of a warp meet no bank twice where HEAD and WIDTH are multiples of 32.
#define KEY_ROW (HEAD + 8)
#define VALUE_ROW (WIDTH + 4)

// d += a b of numbers that may have more bits than tensor cores take.
__device__ __forceinline__ void add_product(float d[4], const float a[4], const float a_low[4], const float b[2]) {
#if IS_SHORT
    multiply(d, a, b);
#else
    float high[2], low[2];
    cut(b[0], high[0], low[0]);
    cut(b[1], high[1], low[1]);
    multiply(d, a_low, high);
    multiply(d, a, low);
    multiply(d, a, high);
#endif
}

// Rows j to j + TILE - 1 to shared memory; zeros from `end` on.
template <u32 Length, u32 Row>
__device__ __forceinline__ void bring(float* to, const T* __restrict__ from, size_t step, u32 j, u32 end) {
    const u32 each = 16 / sizeof(T), parts = Length / each;
    struct __align__(16) Part {
        T of[each];
    };
    for (u32 n = threadIdx.x; n < TILE * parts; n += THREADS) {
        u32 row = n / parts, part = n % parts;
        float v[each] = {};
        if (j + row < end) {
            Part read = *(const Part*)(from + size_t(j + row) * step + part * each);
#pragma unroll
            for (u32 i = 0; i < each; i++) v[i] = value_of(read.of[i]);
        }
#pragma unroll
        for (u32 i = 0; i < each; i += 4) {
            *(float4*)(to + row * Row + part * each + i) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
        }
    }
}

__device__ __forceinline__ void attend_tile(u32 first, u32 h, u32 b, const T* __restrict__ q, const T* __restrict__ k,
                                            const T* __restrict__ v, T* __restrict__ y MASK_PARAMETERS) {
    __shared__ __align__(16) float ks[TILE * KEY_ROW], vs[TILE * VALUE_ROW];
    u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, own = first + threadIdx.x / 32 * 16 + g;
    k += K_AT(b, 0, h / GROUP);
    v += V_AT(b, 0, h / GROUP);
    // A thread has two queries, 8 apart; their elements in the order in which fragments have them: 2 t and 2 t + 1 are
    // the products' t and t + 4.
    float query[HEAD / 8][4], sums[WIDTH / 8][4] = {};
    float most[2] = {MINUS_INFINITY, MINUS_INFINITY}, total[2] = {0.0f, 0.0f};
    u32 start[2], end[2];
#pragma unroll
    for (u32 r = 0; r < 2; r++) {
        u32 i = min(own + r * 8, QUERIES - 1);
        start[r] = FIRST_KEY(i);
        end[r] = KEYS_END(i);
        const T* at = q + Q_AT(b, i, h) + 2 * t;
#pragma unroll
        for (u32 j = 0; j < HEAD / 8; j++) {
            query[j][r] = value_of(at[j * 8]);
            query[j][2 + r] = value_of(at[j * 8 + 1]);
        }
    }
    u32 last = KEYS_END(min(first + 64, QUERIES) - 1);
    for (u32 j0 = FIRST_KEY(first); j0 < last; j0 += TILE) {
        __syncthreads();
        bring<HEAD, KEY_ROW>(ks, k, K_AT(0, 1, 0), j0, last);
        bring<WIDTH, VALUE_ROW>(vs, v, V_AT(0, 1, 0), j0, last);
        __syncthreads();
        float scores[TILE / 8][4] = {};
#pragma unroll
        for (u32 j = 0; j < HEAD / 8; j++) {
            float a[4], a_low[4];
#pragma unroll
            for (u32 i = 0; i < 4; i++) cut(query[j][i], a[i], a_low[i]);
#pragma unroll
            for (u32 n = 0; n < TILE / 8; n++) {
                float2 two = *(const float2*)(ks + (n * 8 + g) * KEY_ROW + j * 8 + 2 * t);
                float of_keys[2] = {two.x, two.y};
                add_product(scores[n], a, a_low, of_keys);
            }
        }
        float fade[2];
        weigh(scores, start, end, most, total, fade, own, j0, h, b MASK_ARGUMENTS);
        // Keys 2 t and 2 t + 1 of each eight are the products' t and t + 4.
        float a[TILE / 8][4], a_low[TILE / 8][4];
#pragma unroll
        for (u32 n = 0; n < TILE / 8; n++) {
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                float weight = scores[n][i % 2 * 2 + i / 2];
#if IS_SHORT
                a[n][i] = to_tf32(weight);
#else
                cut(weight, a[n][i], a_low[n][i]);
#endif
            }
        }
#pragma unroll
        for (u32 c = 0; c < WIDTH / 8; c++) {
            float step[4] = {};
#pragma unroll
            for (u32 n = 0; n < TILE / 8; n++) {
                const float* at = vs + (n * 8 + 2 * t) * VALUE_ROW + c * 8 + g;
                float of_values[2] = {at[0], at[VALUE_ROW]};
                add_product(step, a[n], a_low[n], of_values);
            }
#pragma unroll
            for (u32 i = 0; i < 4; i++) sums[c][i] = fmaf(sums[c][i], fade[i / 2], step[i]);
        }
    }
#pragma unroll
    for (u32 r = 0; r < 2; r++) {
        u32 i = own + r * 8;
        float all = sum_of_four(total[r]), share = all == 0.0f ? 0.0f : 1.0f / all;
        if (i >= QUERIES) continue;
        T* at = y + Y_AT(b, i, h) + 2 * t;
#pragma unroll
        for (u32 c = 0; c < WIDTH / 8; c++) {
            at[c * 8] = rounded_to<T>(sums[c][r * 2] * share);
            at[c * 8 + 1] = rounded_to<T>(sums[c][r * 2 + 1] * share);
        }
    }
}
#elif !defined(HAS_MATRIX)
__device__ __forceinline__ void attend_tile(u32 first, u32 h, u32 b, const T* __restrict__ q, const T* __restrict__ k,
                                            const T* __restrict__ v, T* __restrict__ y MASK_PARAMETERS) {
    for (u32 i = first; i < min(first + 64, QUERIES); i++) attend_query(i, h, b, q, k, v, y MASK_ARGUMENTS);
}
#endif

KERNEL(sdpa_tile)(const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v,
                  T* __restrict__ y MASK_PARAMETERS) {
    wait_for_previous();
    const u32 tiles = (QUERIES + 63) / 64;
    u32 own = blockIdx.x / tiles;
    attend_tile(blockIdx.x % tiles * 64, own % HEADS, own / HEADS, q, k, v, y MASK_ARGUMENTS);
}
