// delta_net   M = exp(g) M + k d^T with d = beta (v - exp(g) M^T k), y = M^T q / sqrt(N), row by row    arXiv:2412.06464
//             g = decay softplus(a + dt), beta = sigmoid(b); queries and keys have length 1
// shapes      qkv f32[ROWS, 2 K N + HEADS V]    a, b f32[ROWS, HEADS]    decay, dt f32[HEADS]    M f32[N, V] a head
// bytes       the state once in and once out, however many rows; 4 (2 N + TILE) a row and block
// launch      a block of 128 threads is TILE columns of a head's matrix: a thread has a part of a column, one of PARTS,
//             in registers while it walks the rows
// numerics    f32; M^T q of the changed matrix is exp(g) M^T q + d (k q), so that a row sums once; rows at or past the
//             real ones are zeros
#define TILE 32u
#define PARTS 4u
#define EACH ((N + PARTS - 1) / PARTS)

KERNEL(delta_net)(const float* __restrict__ qkv, const float* __restrict__ a, const float* __restrict__ b,
                  const float* __restrict__ decays, const float* __restrict__ dt, float* state,
                  const u32* __restrict__ ctl, float* __restrict__ y) {
    wait_for_previous();
    // Of two rows each: one is read while the next one comes. What is behind N is zero.
    __shared__ float keys[2][PARTS * EACH];
    __shared__ float queries[2][PARTS * EACH];
    __shared__ float of_keys[128];
    __shared__ float of_queries[128];
    // k k, q q and k q of each part.
    __shared__ float lengths[PARTS][3];
    u32 thread = threadIdx.x, head = blockIdx.y, key_head = KEY_HEAD(head);
    u32 column = blockIdx.x * TILE + thread % TILE, part = thread / TILE, first = part * EACH;
    bool inside = column < V;
    u32 len = ctl[4] != 0 ? 0 : min(ROWS, ctl[1]);
    float* matrix = state + size_t(head) * N * V + column;
    float m[EACH];
#pragma unroll
    for (u32 r = 0; r < EACH; r++) m[r] = inside && first + r < N ? matrix[size_t(first + r) * V] : 0.0f;
    for (u32 i = 0; i < len; i++) {
        const float* row = qkv + size_t(i) * (2 * KEY_HEADS * N + HEADS * V);
        u32 now = i % 2;
        for (u32 c = thread; c < PARTS * EACH; c += 128) {
            queries[now][c] = c < N ? row[key_head * N + c] : 0.0f;
            keys[now][c] = c < N ? row[(KEY_HEADS + key_head) * N + c] : 0.0f;
        }
        float decay = expf(decays[head] * apply(a[size_t(i) * HEADS + head] + dt[head]));
        float beta = 1.0f / (1.0f + expf(-b[size_t(i) * HEADS + head]));
        float value = inside ? row[2 * KEY_HEADS * N + head * V + column] : 0.0f;
        __syncthreads();
        float by_key = 0.0f, by_query = 0.0f, kk = 0.0f, qq = 0.0f, kq = 0.0f;
#pragma unroll
        for (u32 r = 0; r < EACH; r++) {
            float k = keys[now][first + r], q = queries[now][first + r];
            by_key = fmaf(m[r], k, by_key);
            by_query = fmaf(m[r], q, by_query);
            kk = fmaf(k, k, kk);
            qq = fmaf(q, q, qq);
            kq = fmaf(k, q, kq);
        }
        of_keys[thread] = by_key;
        of_queries[thread] = by_query;
        if (thread % TILE == 0) {
            lengths[part][0] = kk;
            lengths[part][1] = qq;
            lengths[part][2] = kq;
        }
        __syncthreads();
        by_key = by_query = kk = qq = kq = 0.0f;
#pragma unroll
        for (u32 p = 0; p < PARTS; p++) {
            by_key += of_keys[p * TILE + thread % TILE];
            by_query += of_queries[p * TILE + thread % TILE];
            kk += lengths[p][0];
            qq += lengths[p][1];
            kq += lengths[p][2];
        }
        float of_k = rsqrtf(kk + EPS), of_q = rsqrtf(qq + EPS);
        float change = of_k * beta * (value - decay * of_k * by_key);
#pragma unroll
        for (u32 r = 0; r < EACH; r++) m[r] = fmaf(change, keys[now][first + r], decay * m[r]);
        if (inside && part == 0) {
            y[(size_t(i) * HEADS + head) * V + column] = (decay * by_query + change * kq) * of_q * rsqrtf(float(N));
        }
    }
    if (!inside) return;
    for (u32 i = len + part; i < ROWS; i += PARTS) y[(size_t(i) * HEADS + head) * V + column] = 0.0f;
    if (len == 0) return;
#pragma unroll
    for (u32 r = 0; r < EACH; r++) {
        if (first + r < N) matrix[size_t(first + r) * V] = m[r];
    }
}
