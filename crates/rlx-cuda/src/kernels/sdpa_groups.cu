// sdpa        y[b, i, h] = softmax(mask(cap(scale q[b, i, h] k[b, :, h / GROUP]^T))) v[b, :, h / GROUP]
//             arXiv:2205.14135
// shapes      q T[B, QUERIES, HEADS, HEAD]    k T[B, KEYS, KV, HEAD]    v T[B, KEYS, KV, WIDTH]    y T as q, WIDTH wide
// bytes       q and y once; k and v for each 64 queries of each head
// launch      a block of 4 warps is 64 queries of a head
// numerics    as sdpa_halves.cu
KERNEL_OF(sdpa_groups, THREADS)(const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v,
                                T* __restrict__ y MASK_PARAMETERS) {
    SHARED_BYTES(shared);
    wait_for_previous();
    const u32 tiles = (QUERIES + 63) / 64;
    u32 first = blockIdx.x % tiles * 64, h = blockIdx.x / tiles % HEADS, b = blockIdx.x / tiles / HEADS;
    u32 pairs = threadIdx.x % 4 * 2, own = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    k += K_AT(b, 0, h / GROUP);
    v += V_AT(b, 0, h / GROUP);
    Rows rows;
    u32 start[2], end[2];
#pragma unroll
    for (u32 r = 0; r < 2; r++) {
        u32 i = min(own + r * 8, QUERIES - 1);
        start[r] = FIRST_KEY(i);
        end[r] = KEYS_END(i);
        rows.most[r] = MINUS_INFINITY;
        rows.total[r] = 0.0f;
        const T* at = q + Q_AT(b, i, h) + pairs;
#pragma unroll
        for (u32 j = 0; j < HEAD / 8; j++) rows.query[0][j / 2][j % 2 * 2 + r] = *(const u32*)(at + j * 8);
    }
    u32 to = KEYS_END(min(first + 64, QUERIES) - 1);
    attend_group<KIND>(
        rows, shared, FIRST_KEY(first), to, [&](u32 j) { return (const u8*)(k + K_AT(0, j, 0)); },
        [&](u32 j) { return (const u8*)(v + V_AT(0, j, 0)); },
        [&](u32 j) { weigh(rows.scores, start, end, rows.most, rows.total, rows.fade, own, j, h, b MASK_ARGUMENTS); },
        [](float x, float z, u32(&parts)[1]) { parts[0] = pair_of(x, z); });
#pragma unroll
    for (u32 r = 0; r < 2; r++) {
        u32 i = own + r * 8;
        float all = sum_of_four(rows.total[r]), share = all == 0.0f ? 0.0f : 1.0f / all;
        if (i >= QUERIES) continue;
        T* at = y + Y_AT(b, i, h) + pairs;
#pragma unroll
        for (u32 c = 0; c < WIDTH / 8; c++) {
            *(u32*)(at + c * 8) = pair_of(rows.sums[c][r * 2] * share, rows.sums[c][r * 2 + 1] * share);
        }
    }
}
