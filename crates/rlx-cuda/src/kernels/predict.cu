// predict     ids[m] = argmax, or a draw, of row m, not the mask where its position has that; confidence[m] = its share
// shapes      logits TYPE[ROWS, VOCAB]    params u32[32]    canvas u32[16 + ROWS]    ids, confidence u32[ROWS]
// bytes       the logits' twice, and where a token is drawn once more
// launch      a block of 1,024 threads is a row; a thread strides the ids, or owns a range where order counts
// numerics    one f32 subtraction and product a logit, then integers, in units of 2^-31: the core's bits
struct Row {
    const TYPE* logits;
    float most, scale;
    u32 least;
};

__device__ __forceinline__ u32 key_at(const Row& row, u32 id) {
    return key_of(__float_as_uint(f32(value_of(row.logits[id]))));
}

// The weight of a token, 0 where it is less than the least that counts.
__device__ __forceinline__ u32 kept(const Row& row, u32 id) {
    u32 key = key_at(row, id);
    if (key == 0u) return 0u;
    float gap = fminf(__fadd_rn(row.most, -logit_of(key)), 33554432.0f);
    u32 w = weight(u32(fminf(__fmul_rn(gap, row.scale), 2097152.0f)));
    return w >= row.least ? w : 0u;
}

KERNEL(predict)(const TYPE* __restrict__ logits, const u32* __restrict__ params, const u32* __restrict__ canvas,
                u32* __restrict__ ids, u32* __restrict__ confidence) {
    wait_for_previous();
    __shared__ u64 sums[THREADS], groups[SIDE], need;
    __shared__ u32 best_key, other_key, other_id, first, end, chosen;
    u32 thread = threadIdx.x, m = blockIdx.x;
    // The token that is not chosen, if there is one.
    u32 mask = canvas[CANVAS_MASK];
    bool is_late = canvas[CANVAS_PASS] >= 2u * ROWS;
    if (!is_late && canvas[CANVAS_IDS + m] != mask) mask = NONE;
    bool is_greedy = params[GREEDY] != 0u;
    Row row = {logits + size_t(m) * VOCAB, 0.0f, PLAIN_SCALE, 0u};
    if (!is_greedy) {
        row.scale = __uint_as_float(params[SCALE]);
        row.least = params[MIN_P];
    }
    if (thread == 0u) {
        best_key = other_key = 0u;
        other_id = NONE;
    }
    __syncthreads();

    // The largest of all, and the lowest id with the largest that is not the mask.
    u32 own_key = 0u, own_id = NONE;
    for (u32 id = thread; id < VOCAB; id += THREADS) {
        u32 key = key_at(row, id);
        if (id == mask) {
            atomicMax(&best_key, key);
        } else if (key > own_key) {
            own_key = key;
            own_id = id;
        }
    }
    atomicMax(&best_key, own_key);
    atomicMax(&other_key, own_key);
    __syncthreads();
    if (own_id != NONE && own_key == other_key) atomicMin(&other_id, own_id);
    __syncthreads();
    u32 best = other_id == NONE ? u32(mask == 0u) : other_id;
    if (best_key == 0u) {
        if (thread == 0u) {
            ids[m] = best;
            confidence[m] = 0u;
        }
        return;
    }
    row.most = logit_of(best_key);
    if (thread == 0u) chosen = best;

    // A draw needs sums of ids in a row: the range that the token stands in is divided until it is one id.
    u32 of_mask = mask < VOCAB ? kept(row, mask) : 0u, from = 0u, to = VOCAB;
    u64 total = 0, needed = 0;
    for (u32 round = 0; round == 0u || (!is_greedy && to - from > 1u); round++) {
        u32 size = (to - from + THREADS - 1u) / THREADS;
        u32 begin = is_greedy ? thread : min(from + thread * size, to), by = is_greedy ? THREADS : 1u;
        u32 stop = is_greedy ? VOCAB : min(begin + size, to);
        u64 sum = 0, before, all;
        for (u32 id = begin; id < stop; id += by) sum += id == mask ? 0u : kept(row, id);
        sums[thread] = sum;
        if (thread == 0u) first = end = 0u;
        span_of(sums, groups, before, all);
        if (round == 0u) {
            total = all + of_mask;
            u64 position = u64(canvas[CANVAS_PASS]) << 32 | u32(canvas[CANVAS_START] + m);
            needed = product_shifted(all, philox(position, params[SEED_LO], params[SEED_HI]).at[0], 32u);
        }
        if (!is_greedy && before <= needed && needed < before + sum) {
            first = begin;
            end = stop;
            need = needed - before;
        }
        __syncthreads();
        from = first;
        to = end;
        needed = need;
        __syncthreads();
    }
    if (thread != 0u) return;
    // Where nothing but the mask is kept, the best stays.
    u32 id = !is_greedy && from < to ? from : chosen;
    ids[m] = id;
    confidence[m] = id < VOCAB && total > 0 ? u32((u64(kept(row, id)) << 31) / total) : 0u;
}
