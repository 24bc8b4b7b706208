// sample      id = argmax, or a draw after penalties, top-k, top-p and min-p; advances ctl (rlx-core, sample/mod.rs)
// shapes      logits f32[VOCAB]    params u32[32], then a bit a token    counts u32[VOCAB]    ctl u32[16]
// bytes       4*VOCAB a pass, 8*VOCAB with penalties; passes: best 1, top-k and top-p 2 each, a split tie 2, draw 1
// launch      BLOCKS blocks of 1,024 threads look for the best; the last one to have done so has all the rest: a thread
//             strides the ids, eight loads at once, or owns a range where order counts
// numerics    one f32 subtraction and product a logit, then integers: the core's bits
// Logits that a thread asks for before it uses the first.
#define AHEAD 8u
// Of ctl.
#define PAST 0
#define LEN 1
#define TOKEN 2
#define STEP 3
#define DONE 4
#define LIMIT 5
#define RING 6
#define CTL_CAPACITY 7
// Of params.
#define TOP_K 2
#define TOP_P 3
#define REPETITION 5
#define REPETITION_RECIPROCAL 6
#define FREQUENCY 7
#define PRESENCE 8
#define PENALTIES 9
#define N_STOP 12
#define STOP 13
#define MASKED 29
#define MASK 32
#define TOP_P_OFF 0x80000000u
// The upper 10 bits of a distance are a coarse bin, its lower 11 a fine one.
#define FINE_BITS 11
#define COARSE_BINS 1024u
#define FINE_BINS 2048u
// A counts word: how often the token was generated, whether it is in the prompt, and in the upper half its bias.
#define GENERATED 0x7fffu
#define OCCURS 0xffffu

// Keeps the tokens that stand before it in the order of (distance, id).
struct Cut {
    u32 q, id;
};

// Where a running sum over bins reaches what is needed: the bin, NONE where it never does; what is still needed there;
// and, of fine bins, how many tokens that takes, NONE for all.
struct Found {
    u64 need;
    u32 bin, n_ties;
};

struct Shared {
    union {
        u64 coarse[COARSE_BINS];
        u32 fine[FINE_BINS];
    };
    u64 sums[THREADS], groups[SIDE];
    Found found;
    u64 need;
    u32 best_key, best_id, first, end, chosen;
};

struct Sampler {
    const float* logits;
    const u32* params;
    const u32* counts;
    float most;
    bool is_masked, has_penalties;
};

// A logit after penalties and bias.
__device__ __forceinline__ u32 penalised(const Sampler& s, u32 bits, u32 word) {
    if (word == 0u) return bits;
    float logit = __uint_as_float(bits), less = logit;
    if (word & OCCURS) less = __fmul_rn(less, __uint_as_float(s.params[logit > 0.0f ? REPETITION_RECIPROCAL : REPETITION]));
    u32 generated = word & GENERATED;
    if (generated > 0u) {
        float off = __fmul_rn(__uint_as_float(s.params[FREQUENCY]), float(generated));
        less = __fadd_rn(less, -__fadd_rn(off, __uint_as_float(s.params[PRESENCE])));
    }
    return __float_as_uint(__fadd_rn(less, float(int(word) >> 16) * 0.00390625f));
}

// The key of the logit with these bits, after what is asked of its token.
__device__ __forceinline__ u32 key_at(const Sampler& s, u32 id, u32 bits) {
    u32 key = key_of(bits);
    if (s.is_masked && (s.params[MASK + id / 32u] >> (id % 32u) & 1u) == 0u) return 0u;
    if (key == 0u || !s.has_penalties) return key;
    return key_of(penalised(s, bits, s.counts[id]));
}

// Calls `f` with the thread's ids, in order, and the bits of their logits; with those of one of several blocks.
template <class F>
__device__ __forceinline__ void for_ids(const Sampler& s, F f, u32 block = 0, u32 blocks = 1) {
    const u32 run = AHEAD * THREADS;
    for (u32 from = block * run + threadIdx.x; from < VOCAB; from += blocks * run) {
        u32 bits[AHEAD];
#pragma unroll
        for (u32 i = 0; i < AHEAD; i++) bits[i] = __float_as_uint(s.logits[min(from + i * THREADS, VOCAB - 1u)]);
#pragma unroll
        for (u32 i = 0; i < AHEAD; i++) {
            if (from + i * THREADS < VOCAB) f(from + i * THREADS, bits[i]);
        }
    }
}

// How far the logit with these bits is below the largest, in 2^-16 octaves of weight, at most FAR.
__device__ __forceinline__ u32 distance_of(const Sampler& s, u32 id, u32 bits) {
    u32 key = key_at(s, id, bits);
    if (key == 0u) return FAR;
    float gap = fminf(__fadd_rn(s.most, -logit_of(key)), 33554432.0f);
    return u32(fminf(__fmul_rn(gap, __uint_as_float(s.params[SCALE])), 2097152.0f));
}

__device__ __forceinline__ u32 distance_at(const Sampler& s, u32 id) {
    return distance_of(s, id, __float_as_uint(s.logits[id]));
}

__device__ __forceinline__ bool keeps(Cut cut, u32 q, u32 id) { return q < cut.q || (q == cut.q && id < cut.id); }

__device__ __forceinline__ u32 worth(u32 q, bool by_weight) { return by_weight ? weight(q) : 1u; }

__device__ __forceinline__ u64 bin_sum(const Shared& sh, u32 bin, bool is_fine, bool by_weight, u32 first) {
    return is_fine ? u64(sh.fine[bin]) * worth(first + bin, by_weight) : sh.coarse[bin];
}

// Looks for `need`; of coarse bins by weight, for top-p's share of the total.
__device__ Found reach(Shared& sh, const Sampler& s, bool is_fine, bool by_weight, u32 first, u64 need) {
    u32 n_bins = (is_fine ? FINE_BINS : COARSE_BINS) / THREADS, own = threadIdx.x * n_bins;
    u64 sum = 0, before, total;
    for (u32 i = 0; i < n_bins; i++) sum += bin_sum(sh, own + i, is_fine, by_weight, first);
    sh.sums[threadIdx.x] = sum;
    if (threadIdx.x == 0u) sh.found.bin = NONE;
    span_of(sh.sums, sh.groups, before, total);
    u64 rest = need;
    if (by_weight && !is_fine) {
        rest = product_shifted(total, s.params[TOP_P], 31u);
        if (rest == 0) rest = 1;
    }
    // One thread's bins reach it, if any do.
    if (before < rest && before + sum >= rest) {
        rest -= before;
        u32 bin = own;
        u64 here = bin_sum(sh, bin, is_fine, by_weight, first);
        while (here < rest) {
            rest -= here;
            bin++;
            here = bin_sum(sh, bin, is_fine, by_weight, first);
        }
        Found found = {rest, bin, NONE};
        if (is_fine) {
            u32 n_here = sh.fine[bin];
            u64 unit = worth(first + bin, by_weight), n = (rest + unit - 1) / unit;
            if (n < n_here) found.n_ties = u32(n);
        }
        sh.found = found;
    }
    __syncthreads();
    Found found = sh.found;
    __syncthreads();
    return found;
}

// The first cut whose tokens add up to top-k (1 a token) or to top-p's share (by weight); the same cut where all that
// it keeps is less. A radix selection: coarse bins, the fine bins of one, then ids.
__device__ Cut tighten(Shared& sh, const Sampler& s, Cut cut, bool by_weight) {
    u32 thread = threadIdx.x;
    for (u32 i = thread; i < COARSE_BINS; i += THREADS) sh.coarse[i] = 0;
    __syncthreads();
    for_ids(s, [&](u32 id, u32 bits) {
        u32 q = distance_of(s, id, bits);
        if (keeps(cut, q, id)) atomicAdd(&sh.coarse[q >> FINE_BITS], u64(worth(q, by_weight)));
    });
    __syncthreads();
    Found coarse = reach(sh, s, false, by_weight, 0u, s.params[TOP_K]);
    if (coarse.bin == NONE) return cut;
    for (u32 i = thread; i < FINE_BINS; i += THREADS) sh.fine[i] = 0u;
    __syncthreads();
    u32 nearest = coarse.bin << FINE_BITS;
    for_ids(s, [&](u32 id, u32 bits) {
        u32 q = distance_of(s, id, bits);
        if (q >> FINE_BITS == coarse.bin && keeps(cut, q, id)) atomicAdd(&sh.fine[q - nearest], 1u);
    });
    __syncthreads();
    Found fine = reach(sh, s, true, by_weight, nearest, coarse.need);
    u32 q = nearest + fine.bin;
    if (fine.n_ties == NONE) {
        // All of this distance that the old cut keeps.
        if (q + 1u > cut.q) return cut;
        return {q + 1u, 0u};
    }
    // The tie is split: the id after its last kept token.
    u32 size = (VOCAB + THREADS - 1u) / THREADS, first = min(thread * size, VOCAB), end = min(first + size, VOCAB);
    u32 own = 0;
    for (u32 id = first; id < end; id++) own += distance_at(s, id) == q && keeps(cut, q, id);
    u64 before, total;
    sh.sums[thread] = own;
    span_of(sh.sums, sh.groups, before, total);
    if (before < fine.n_ties && fine.n_ties <= before + own) {
        u64 n = before;
        for (u32 id = first; n < fine.n_ties; id++) {
            if (distance_at(s, id) == q && keeps(cut, q, id)) n++;
            sh.found.bin = id + 1u;
        }
    }
    __syncthreads();
    u32 after = sh.found.bin;
    __syncthreads();
    return {q, after};
}

// Sets `chosen` to the first kept id whose cumulative weight exceeds random * total >> 32. The range that it stands in
// is divided among all threads until it is one id.
__device__ void draw(Shared& sh, const Sampler& s, Cut cut, u32 position) {
    u32 thread = threadIdx.x, from = 0, to = VOCAB;
    u64 needed = 0;
    for (u32 round = 0; to - from > 1u || round == 0u; round++) {
        u32 size = (to - from + THREADS - 1u) / THREADS;
        u32 first = min(from + thread * size, to), end = min(first + size, to);
        u64 sum = 0, before, total;
        for (u32 id = first; id < end; id++) {
            u32 q = distance_at(s, id), w = weight(q);
            if (keeps(cut, q, id) && w >= s.params[MIN_P]) sum += w;
        }
        sh.sums[thread] = sum;
        if (thread == 0u) sh.first = sh.end = 0u;
        span_of(sh.sums, sh.groups, before, total);
        u64 need = round == 0u ? product_shifted(total, philox(position, s.params[SEED_LO], s.params[SEED_HI]).at[0], 32u) : needed;
        if (before <= need && need < before + sum) {
            sh.first = first;
            sh.end = end;
            sh.need = need - before;
        }
        __syncthreads();
        from = sh.first;
        to = sh.end;
        needed = sh.need;
        __syncthreads();
    }
    // Nothing is kept only where no logit is above -inf: the best id stays.
    if (thread == 0u && from < to) sh.chosen = from;
    __syncthreads();
}

// The lowest id with the largest key that threads have found, where sh.best_key and best_id begin with 0 and NONE.
__device__ __forceinline__ void best_of(Shared& sh, u32 key, u32 id) {
    atomicMax(&sh.best_key, key);
    __syncthreads();
    if (key == sh.best_key) atomicMin(&sh.best_id, id);
    __syncthreads();
}

KERNEL(sample)(const float* __restrict__ logits, const u32* __restrict__ params, u32* counts, u32* ctl, u32* bests,
               u32* finished) {
    wait_for_previous();
    __shared__ Shared sh;
    __shared__ bool is_last;
    u32 thread = threadIdx.x, position = ctl[PAST] + ctl[LEN], done = ctl[DONE];
    // The last block changes it, behind all others.
    if (done != 0u) return;
    Sampler s = {logits, params, counts, 0.0f, params[MASKED] != 0u, params[PENALTIES] != 0u};
    if (thread == 0u) {
        sh.best_key = 0u;
        sh.best_id = NONE;
        sh.need = 0;
    }
    __syncthreads();
    // Id 0 where no logit is above -inf.
    u32 own_key = 0u, own_id = blockIdx.x * AHEAD * THREADS + thread;
    auto find = [&](u32 id, u32 bits) {
        u32 key = key_at(s, id, bits);
        if (key > own_key) {
            own_key = key;
            own_id = id;
        }
    };
    for_ids(s, find, blockIdx.x, BLOCKS);
    best_of(sh, own_key, min(own_id, VOCAB - 1u));
    if (BLOCKS > 1) {
        if (thread == 0u) {
            bests[2 * blockIdx.x] = sh.best_key;
            bests[2 * blockIdx.x + 1] = sh.best_id;
            __threadfence();
            is_last = atomicAdd(finished, 1u) == BLOCKS - 1;
        }
        __syncthreads();
        if (!is_last) return;
        __threadfence();
        bool has = thread < BLOCKS;
        own_key = has ? __ldcg(bests + 2 * thread) : 0u;
        own_id = has ? __ldcg(bests + 2 * thread + 1) : NONE;
        if (thread == 0u) {
            sh.best_key = 0u;
            sh.best_id = NONE;
            // The next launch counts from zero.
            *finished = 0u;
        }
        __syncthreads();
        best_of(sh, own_key, own_id);
    }
    u32 best = sh.best_key;
    if (thread == 0u) sh.chosen = sh.best_id;
    __syncthreads();
    if (params[GREEDY] == 0u) {
        s.most = logit_of(best);
        Cut cut = {FAR, 0u};
        if (params[TOP_K] != 0u) cut = tighten(sh, s, cut, false);
        if (params[TOP_P] < TOP_P_OFF) cut = tighten(sh, s, cut, true);
        draw(sh, s, cut, position);
    }
    if (thread != 0u) return;
    u32 id = sh.chosen;
    if (params[PENALTIES] != 0u && (counts[id] & GENERATED) != GENERATED) counts[id] += 1u;
    bool is_stop = false;
    for (u32 i = 0; i < params[N_STOP]; i++) is_stop = is_stop || params[STOP + i] == id;
    u32 sampled = ctl[STEP] + 1u;
    bool is_full = sampled >= ctl[LIMIT] || position >= ctl[CTL_CAPACITY];
    ctl[PAST] = position;
    ctl[LEN] = 1u;
    ctl[TOKEN] = id;
    ctl[STEP] = sampled;
    ctl[DONE] = is_stop ? 1u : is_full ? 2u : 0u;
    ctl[RING] += 1u;
}
