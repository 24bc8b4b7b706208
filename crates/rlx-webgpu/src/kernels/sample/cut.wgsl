// top-k and top-p

// Keeps the tokens that stand before it in the order of (distance, id).
struct Cut { q: u32, id: u32 }

fn keeps(cut: Cut, q: u32, id: u32) -> bool {
    return q < cut.q || (q == cut.q && id < cut.id);
}

fn worth(q: u32, by_weight: bool) -> u32 {
    if by_weight { return weight(q); }
    return 1u;
}

// The items that a thread owns where order counts: (first, end).
fn block_of(thread: u32, items: u32) -> vec2u {
    let size = (items + THREADS - 1u) / THREADS;
    let first = min(thread * size, items);
    return vec2u(first, min(first + size, items));
}

struct Span { before: vec2u, total: vec2u }

// Items, and what their cumulative weight must exceed.
struct Range { first: u32, end: u32, need: vec2u }

// The sum of `sums` before the thread's own, and of all: within sixteen, and over sixteen of those.
fn span_of(thread: u32) -> Span {
    if thread < 16u {
        var sum = vec2u(0u);
        for (var i = 0u; i < 16u; i++) { sum = add(sum, sums[thread * 16u + i]); }
        group_sums[thread] = sum;
    }
    workgroupBarrier();
    var span = Span(vec2u(0u), vec2u(0u));
    for (var g = 0u; g < 16u; g++) {
        if g == thread / 16u { span.before = span.total; }
        span.total = add(span.total, group_sums[g]);
    }
    for (var t = thread & ~15u; t < thread; t++) { span.before = add(span.before, sums[t]); }
    return span;
}

fn clear_bins(thread: u32) {
    for (var i = thread; i < FINE_BINS; i += THREADS) { atomicStore(&bins[i], 0u); }
    workgroupBarrier();
}

// Where a running sum over the bins reaches what is needed: the bin, NONE when it never does;
// what is still needed there; and, of fine bins, how many tokens that takes, NONE when all.
struct Found { bin: u32, need: vec2u, n_ties: u32 }

// What a bin is worth; `first` is the distance of fine bin 0.
fn bin_sum(bin: u32, is_fine: bool, by_weight: bool, first: u32) -> vec2u {
    if is_fine { return multiply(atomicLoad(&bins[bin]), worth(first + bin, by_weight)); }
    return vec2u(atomicLoad(&bins[bin]), atomicLoad(&bins[COARSE_BINS + bin]));
}

// Looks for `need`; by weight and coarse, for top-p's share of the total.
fn reach(thread: u32, is_fine: bool, by_weight: bool, first: u32, need: vec2u) -> Found {
    let n_bins = select(COARSE_BINS, FINE_BINS, is_fine) / THREADS;
    var sum = vec2u(0u);
    for (var i = 0u; i < n_bins; i++) {
        sum = add(sum, bin_sum(thread * n_bins + i, is_fine, by_weight, first));
    }
    sums[thread] = sum;
    if thread == 0u { found.bin = NONE; }
    workgroupBarrier();

    let span = span_of(thread);
    var rest = need;
    if by_weight && !is_fine {
        let product = multiply_long(span.total, params[TOP_P]);
        rest = vec2u((product.x >> 31u) | (product.y << 1u), (product.y >> 31u) | (product.z << 1u));
        if rest.x == 0u && rest.y == 0u { rest.x = 1u; }
    }
    // One thread's bins reach it, if any do.
    if is_less(span.before, rest) && !is_less(add(span.before, sum), rest) {
        rest = subtract(rest, span.before);
        var bin = thread * n_bins;
        var here = bin_sum(bin, is_fine, by_weight, first);
        while is_less(here, rest) {
            rest = subtract(rest, here);
            bin++;
            here = bin_sum(bin, is_fine, by_weight, first);
        }
        found.bin = bin;
        found.need = rest;
        if is_fine {
            let n_here = atomicLoad(&bins[bin]);
            let n_ties = divide_up(rest, worth(first + bin, by_weight), n_here);
            found.n_ties = select(n_ties, NONE, n_ties >= n_here);
        }
    }
    return workgroupUniformLoad(&found);
}

// The first cut whose tokens add up to top-k (1 a token) or to top-p's share (by weight); the same
// cut when all it keeps is less. A radix selection: coarse bins, the fine bins of one, then ids.
fn tighten(thread: u32, items: u32, cut: Cut, by_weight: bool) -> Cut {
    clear_bins(thread);
    for (var first = thread; first < items; first += 8u * THREADS) {
        let index = indices(first, THREADS);
        let ids = ids_of(index, items);
        let far = distances(ids, index, items);
        for (var i = 0u; i < 8u; i++) {
            let q = at(far, i);
            if keeps(cut, q, at(ids, i)) {
                let more = worth(q, by_weight);
                let old = atomicAdd(&bins[q >> FINE_BITS], more);
                if old + more < old { atomicAdd(&bins[COARSE_BINS + (q >> FINE_BITS)], 1u); }
            }
        }
    }
    workgroupBarrier();
    let coarse = reach(thread, false, by_weight, 0u, vec2u(params[TOP_K], 0u));
    if coarse.bin == NONE { return cut; }

    clear_bins(thread);
    let nearest = coarse.bin << FINE_BITS;
    for (var first = thread; first < items; first += 8u * THREADS) {
        let index = indices(first, THREADS);
        let ids = ids_of(index, items);
        let far = distances(ids, index, items);
        for (var i = 0u; i < 8u; i++) {
            let q = at(far, i);
            if q >> FINE_BITS == coarse.bin && keeps(cut, q, at(ids, i)) { atomicAdd(&bins[q - nearest], 1u); }
        }
    }
    workgroupBarrier();
    let fine = reach(thread, true, by_weight, nearest, coarse.need);
    let q = nearest + fine.bin;
    if fine.n_ties == NONE {
        // All of this distance that the old cut keeps.
        if q + 1u > cut.q { return cut; }
        return Cut(q + 1u, 0u);
    }

    // The tie is split: the id after its last kept token.
    let block = block_of(thread, items);
    var n_own = 0u;
    for (var i = block.x; i < block.y; i++) {
        let id = id_of(i, items);
        if distance_of(id) == q && keeps(cut, q, id) { n_own++; }
    }
    sums[thread] = vec2u(n_own, 0u);
    workgroupBarrier();
    let n_before = span_of(thread).before.x;
    if n_before < fine.n_ties && fine.n_ties <= n_before + n_own {
        var n = n_before;
        for (var i = block.x; n < fine.n_ties; i++) {
            let id = id_of(i, items);
            if distance_of(id) == q && keeps(cut, q, id) { n++; }
            found.bin = id + 1u;
        }
    }
    return Cut(q, workgroupUniformLoad(&found).bin);
}
