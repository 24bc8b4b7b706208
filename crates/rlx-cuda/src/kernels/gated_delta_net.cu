// gated_delta_net M = exp(g) M + k d^T with d = beta (v - M^T k) of the M before, y = M^T q / sqrt(N)
//             arXiv:2412.06464
// shapes      q, k T[.., ROWS, KEY_HEADS, N]    v, y T[.., ROWS, HEADS, V]    g T[.., ROWS, HEADS] or, a gate for each
//             row of M, [.., ROWS, HEADS, N]    beta T[.., ROWS, HEADS]    M f32[.., HEADS, N, V]
// bytes       the state once in and once out, however many rows; 2 N + TILE elements a row and block
// launch      a block of 128 threads is TILE columns of a head's matrix: a thread has a part of a column, one of PARTS,
//             in registers while it walks the rows
// numerics    f32; M^T q of the changed matrix is that of exp(g) M and d (k q), so that a row sums once; rounded once
#define TILE 32u
#define TILES ((V + TILE - 1) / TILE)
#define PARTS 4u
#define EACH ((N + PARTS - 1) / PARTS)

KERNEL(gated_delta_net)(const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v,
                        const T* __restrict__ g, const T* __restrict__ betas, T* __restrict__ y STATE_PARAMETERS) {
    wait_for_previous();
    // Of two rows each: one is read while the next one comes. What is behind N is zero.
    __shared__ float keys[2][PARTS * EACH], queries[2][PARTS * EACH];
#if HAS_WIDE_GATE
    __shared__ float gates[2][PARTS * EACH];
#endif
    __shared__ float of_keys[128], of_queries[128], products[PARTS];
    u32 thread = threadIdx.x, head = blockIdx.x / TILES % HEADS, batch = blockIdx.x / TILES / HEADS;
    u32 column = blockIdx.x % TILES * TILE + thread % TILE, part = thread / TILE, first = part * EACH;
    bool inside = column < V;
    u32 len = ROWS;
#if HAS_CONTROL
    len = min(ROWS, ctl[1]);
#endif
    float m[EACH];
#if HAS_STATE
    float* matrix = state + (size_t(batch) * HEADS + head) * N * V + column;
#endif
#pragma unroll
    for (u32 r = 0; r < EACH; r++) {
        m[r] = 0.0f;
#if HAS_STATE
        if (inside && first + r < N) m[r] = matrix[size_t(first + r) * V];
#endif
    }
    for (u32 i = 0; i < len; i++) {
        size_t row = size_t(batch) * ROWS + i, at = row * HEADS + head;
        size_t key = (row * KEY_HEADS + KEY_HEAD(head)) * N;
        u32 now = i % 2;
        for (u32 c = thread; c < PARTS * EACH; c += 128) {
            queries[now][c] = c < N ? value_of(q[key + c]) : 0.0f;
            keys[now][c] = c < N ? value_of(k[key + c]) : 0.0f;
#if HAS_WIDE_GATE
            gates[now][c] = c < N ? expf(value_of(g[at * N + c])) : 0.0f;
#endif
        }
#if !HAS_WIDE_GATE
        float decay = expf(value_of(g[at]));
#endif
        float beta = value_of(betas[at]), value = inside ? value_of(v[at * V + column]) : 0.0f;
        __syncthreads();
        float by_key = 0.0f, by_query = 0.0f, kq = 0.0f;
#pragma unroll
        for (u32 r = 0; r < EACH; r++) {
            float one = keys[now][first + r], other = queries[now][first + r];
#if HAS_WIDE_GATE
            m[r] *= gates[now][first + r];
#else
            m[r] *= decay;
#endif
            by_key = fmaf(m[r], one, by_key);
            by_query = fmaf(m[r], other, by_query);
            kq = fmaf(one, other, kq);
        }
        of_keys[thread] = by_key;
        of_queries[thread] = by_query;
        if (thread % TILE == 0) products[part] = kq;
        __syncthreads();
        by_key = by_query = kq = 0.0f;
#pragma unroll
        for (u32 p = 0; p < PARTS; p++) {
            by_key += of_keys[p * TILE + thread % TILE];
            by_query += of_queries[p * TILE + thread % TILE];
            kq += products[p];
        }
        float change = beta * (value - by_key);
#pragma unroll
        for (u32 r = 0; r < EACH; r++) m[r] = fmaf(change, keys[now][first + r], m[r]);
        if (inside && part == 0) y[at * V + column] = rounded_to<T>((by_query + change * kq) * rsqrtf(float(N)));
    }
    if (!inside) return;
    for (u32 i = len + part; i < ROWS; i += PARTS) {
        y[((size_t(batch) * ROWS + i) * HEADS + head) * V + column] = rounded_to<T>(0.0f);
    }
#if HAS_STATE
#if HAS_CONTROL
    if (ctl[4] != 0) return;
#endif
#pragma unroll
    for (u32 r = 0; r < EACH; r++) {
        if (first + r < N) matrix[size_t(first + r) * V] = m[r];
    }
#endif
}
