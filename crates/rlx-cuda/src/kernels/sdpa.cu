// sdpa        y[b, i, h] = softmax(mask(cap(scale q[b, i, h] k[b, :, h / GROUP]^T))) v[b, :, h / GROUP]
// shapes      q T[B, QUERIES, HEADS, HEAD]    k T[B, KEYS, KV, HEAD]    v T[B, KEYS, KV, WIDTH]    y T as q, WIDTH wide
// bytes       q and y once, k and v for each query of each head, from a cache where they fit
// launch      a block of THREADS threads is a query of a head: a thread has one of THREADS keys, then columns of values
// numerics    f32, an online softmax by THREADS keys; a query that sees no key is zeros; rounded once
KERNEL(sdpa)(const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v,
             T* __restrict__ y MASK_PARAMETERS
             NUMBERS) {
    wait_for_previous();
    u32 own = blockIdx.x / QUERIES;
    attend_query(blockIdx.x % QUERIES, own % HEADS, own / HEADS, q, k, v, y MASK_ARGUMENTS PASSED_NUMBERS);
}
