// sample      id = argmax, or a draw after penalties, top-k, top-p, min-p; advances ctl (rlx-core, sample/mod.rs)
// shapes      logits f32[vocab] at arena[logits_at]    ctl u32[16]    params u32[32]    counts u32[vocab]
// bytes       4*vocab a pass, 8*vocab with penalties; passes: best 1, then with top-k of 256 at most 1, else
//             draw 1, top-k and top-p 2 each, a split tie 2
// launch      (1, 1, 1) workgroup of 256 threads: a thread strides the ids, or owns a block where order counts
// numerics    one f32 subtraction and product a logit, then integers: the core's bits, penalties aside

struct Step { vocab: u32, logits_at: u32, unused0: u32, unused1: u32 }  // logits_at in elements

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read_write> arena: array<f32>;  // only read here
@group(0) @binding(2) var<storage, read_write> ctl: array<u32>;
@group(0) @binding(3) var<storage, read> params: array<u32>;
@group(0) @binding(4) var<storage, read_write> counts: array<u32>;  // untouched without penalties

// Words of ctl, and of params: rlx-core's sample/control.rs and sample/params.rs.
const PAST = 0u;
const LEN = 1u;
const TOKEN = 2u;
const STEP = 3u;
const DONE = 4u;
const LIMIT = 5u;
const RING = 6u;
const CAPACITY = 7u;

const GREEDY = 0u;
const SCALE = 1u;
const TOP_K = 2u;
const TOP_P = 3u;
const MIN_P = 4u;
const REPETITION = 5u;
const REPETITION_RECIPROCAL = 6u;
const FREQUENCY = 7u;
const PRESENCE = 8u;
const PENALTIES = 9u;
const SEED_LO = 10u;
const SEED_HI = 11u;
const N_STOP = 12u;
const STOP = 13u;
const TOP_P_OFF = 0x80000000u;

const THREADS = 256u;
const NONE = 0xffffffffu;
const FAR = 0x200000u;        // 32 octaves of 2^16: the least distance whose weight is 0
const FINE_BITS = 11u;        // of a distance's 21 bits; the coarse bins take the upper 10
const COARSE_BINS = 1024u;
const FINE_BINS = 2048u;
const LIST = 512u;            // ids that may be listed instead of going through all of them
const GENERATED = 0x7fffffffu;  // bits of a counts word; the other one says: in the prompt

var<workgroup> is_done: u32;
var<workgroup> best_key: atomic<u32>;
var<workgroup> best_id: atomic<u32>;
// Counts of 2048 fine bins; or sums of 1024 coarse ones, low words and then high words.
var<workgroup> bins: array<atomic<u32>, FINE_BINS>;
var<workgroup> sums: array<vec2u, THREADS>;
var<workgroup> group_sums: array<vec2u, 16>;
var<workgroup> found: Found;
// Ids that top-k may keep, in order, and how many.
var<workgroup> list: array<u32, LIST>;
var<workgroup> n_listed: atomic<u32>;
var<workgroup> n_items: u32;
var<workgroup> bound: u32;
var<workgroup> part: Range;
var<workgroup> chosen: u32;

var<private> max_logit: f32;
var<private> is_plain: bool;  // no penalties

// ---- 64-bit integers: (low, high) ----

fn add(a: vec2u, b: vec2u) -> vec2u {
    let low = a.x + b.x;
    return vec2u(low, a.y + b.y + u32(low < b.x));
}

fn subtract(a: vec2u, b: vec2u) -> vec2u {
    return vec2u(a.x - b.x, a.y - b.y - u32(a.x < b.x));
}

fn is_less(a: vec2u, b: vec2u) -> bool {
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

fn multiply(a: u32, b: u32) -> vec2u {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let left = (a >> 16u) * (b & 0xffffu);
    let right = (a & 0xffffu) * (b >> 16u);
    let middle = (low >> 16u) + (left & 0xffffu) + (right & 0xffffu);
    let high = (a >> 16u) * (b >> 16u) + (left >> 16u) + (right >> 16u) + (middle >> 16u);
    return vec2u((low & 0xffffu) | (middle << 16u), high);
}

// 96 bits of a product, lowest word first.
fn multiply_long(a: vec2u, b: u32) -> vec3u {
    let low = multiply(a.x, b);
    let upper = add(multiply(a.y, b), vec2u(low.y, 0u));
    return vec3u(low.x, upper);
}

// ceil(sum / unit) where it is at most `most`: the smallest n with n * unit >= sum.
fn divide_up(sum: vec2u, unit: u32, most: u32) -> u32 {
    var low = 0u;
    var high = most;
    while low < high {
        let n = low + (high - low) / 2u;
        if is_less(multiply(n, unit), sum) { low = n + 1u; } else { high = n; }
    }
    return low;
}

// ---- logits ----

// Four words, twice: a thread has eight loads on their way at once, for one after the other each
// waits for memory alone.
struct Eight { a: vec4u, b: vec4u }

fn at(eight: Eight, i: u32) -> u32 { return select(eight.b, eight.a, i < 4u)[i & 3u]; }

// The indices first, first + stride, ...
fn indices(first: u32, stride: u32) -> Eight {
    let a = vec4u(first) + stride * vec4u(0u, 1u, 2u, 3u);
    return Eight(a, a + vec4u(4u * stride));
}

// The id at an index: of `items` ids, all of them or those of the list.
fn id_of(index: u32, items: u32) -> u32 {
    if items == step.vocab { return index; }
    return list[min(index, items - 1u)];
}

fn ids_of(index: Eight, items: u32) -> Eight {
    if items == step.vocab { return index; }
    let a = index.a;
    let b = index.b;
    return Eight(
        vec4u(id_of(a.x, items), id_of(a.y, items), id_of(a.z, items), id_of(a.w, items)),
        vec4u(id_of(b.x, items), id_of(b.y, items), id_of(b.z, items), id_of(b.w, items)));
}

// Orders f32 bits as integers: no comparison of floats meets a NaN or an infinity, which WGSL
// lets an implementation assume away. 0 for NaN and -inf, which are never taken.
fn key_of(bits: vec4u) -> vec4u {
    let never = ((bits & vec4u(0x7fffffffu)) > vec4u(0x7f800000u)) | (bits == vec4u(0xff800000u));
    let ordered = select(bits | vec4u(0x80000000u), ~bits, bits > vec4u(0x80000000u));  // -0 and 0 alike
    return select(ordered, vec4u(0u), never);
}

// A logit after penalties; `word` is its id's of counts.
fn penalised(bits: u32, word: u32) -> u32 {
    if word == 0u { return bits; }
    let logit = bitcast<f32>(bits);
    let repetition = bitcast<f32>(params[select(REPETITION, REPETITION_RECIPROCAL, logit > 0.0)]);
    var less = logit * repetition;
    let n_generated = word & GENERATED;
    if n_generated > 0u {
        let frequency = bitcast<f32>(params[FREQUENCY]);
        less -= frequency * f32(n_generated) + bitcast<f32>(params[PRESENCE]);
    }
    return bitcast<u32>(less);
}

// The logits of these ids after penalties, as keys; 0 past the last id.
fn four_keys(ids: vec4u) -> vec4u {
    let i = min(ids, vec4u(step.vocab - 1u));
    let l = i + vec4u(step.logits_at);
    let bits = bitcast<vec4u>(vec4f(arena[l.x], arena[l.y], arena[l.z], arena[l.w]));
    let raw = select(key_of(bits), vec4u(0u), ids >= vec4u(step.vocab));
    if is_plain { return raw; }
    let w = vec4u(counts[i.x], counts[i.y], counts[i.z], counts[i.w]);
    let less = key_of(vec4u(penalised(bits.x, w.x), penalised(bits.y, w.y), penalised(bits.z, w.z),
        penalised(bits.w, w.w)));
    return select(less, vec4u(0u), raw == vec4u(0u));
}

// The logits of keys, brought to +-2^126 so that a difference of two is finite.
fn logits_of(keys: vec4u) -> vec4f {
    let near = clamp(keys, vec4u(0x017fffffu), vec4u(0xfe800000u));
    return bitcast<vec4f>(select(~near, near ^ vec4u(0x80000000u), near >= vec4u(0x80000000u)));
}

// How far logits are below the largest, in 2^-16 octaves of weight, at most FAR. The gap stops at
// 2^25, which any scale brings to FAR, so that the product is finite.
fn distances_of(keys: vec4u) -> vec4u {
    let gap = min(vec4f(max_logit) - logits_of(keys), vec4f(33554432.0));
    let q = vec4u(min(gap * bitcast<f32>(params[SCALE]), vec4f(2097152.0)));
    return select(q, vec4u(FAR), keys == vec4u(0u));
}

// The distances of ids; NONE where the index is `end` or more.
fn distances(ids: Eight, index: Eight, end: u32) -> Eight {
    let none = vec4u(NONE);
    return Eight(select(distances_of(four_keys(ids.a)), none, index.a >= vec4u(end)),
        select(distances_of(four_keys(ids.b)), none, index.b >= vec4u(end)));
}

fn distance_of(id: u32) -> u32 { return distances_of(four_keys(vec4u(id))).x; }

// floor(a * fraction / 2^16) for fraction < 2^16 and a < 2^31
fn scaled(a: u32, fraction: u32) -> u32 {
    return (a >> 16u) * fraction + (((a & 0xffffu) * fraction) >> 16u);
}

// 2^31 * 2^(-q / 2^16); the polynomial is that of rlx-core's sample/weight.rs.
fn weight(q: u32) -> u32 {
    if q >= FAR { return 0u; }
    let fraction = q & 0xffffu;
    var sum = 19794886u - scaled(2034856u, fraction);
    sum = 118784456u - scaled(sum, fraction);
    sum = 515800015u - scaled(sum, fraction);
    sum = 1488517413u - scaled(sum, fraction);
    sum = 2147483648u - scaled(sum, fraction);
    return sum >> (q >> 16u);
}

// ---- selection ----

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

// ---- the draw ----

// The weight that is kept of a range of items.
fn kept_weight(items: u32, cut: Cut, range: vec2u) -> vec2u {
    var sum = vec2u(0u);
    for (var first = range.x; first < range.y; first += 8u) {
        let index = indices(first, 1u);
        let ids = ids_of(index, items);
        let far = distances(ids, index, range.y);
        for (var i = 0u; i < 8u; i++) {
            let q = at(far, i);
            let w = weight(q);
            if keeps(cut, q, at(ids, i)) && w >= params[MIN_P] { sum = add(sum, vec2u(w, 0u)); }
        }
    }
    return sum;
}

// The first word of Philox4x32-10 for counter (position, 0, 0, 0) under the seed.
fn random(position: u32) -> u32 {
    var c = vec4u(position, 0u, 0u, 0u);
    var k = vec2u(params[SEED_LO], params[SEED_HI]);
    for (var round = 0u; round < 10u; round++) {
        let left = multiply(0xd2511f53u, c.x);
        let right = multiply(0xcd9e8d57u, c.z);
        c = vec4u(right.y ^ c.y ^ k.x, right.x, left.y ^ c.w ^ k.y, left.x);
        k += vec2u(0x9e3779b9u, 0xbb67ae85u);
    }
    return c.x;
}

// Sets `chosen` to the first kept id whose cumulative weight exceeds random * total >> 32. The
// range that it stands in is divided among all threads until it is one id.
fn draw(thread: u32, items: u32, cut: Cut, position: u32) {
    var range = Range(0u, items, vec2u(0u));
    for (var round = 0u; range.end - range.first > 1u || round == 0u; round++) {
        let size = (range.end - range.first + THREADS - 1u) / THREADS;
        let first = min(range.first + thread * size, range.end);
        let end = min(first + size, range.end);
        let sum = kept_weight(items, cut, vec2u(first, end));
        sums[thread] = sum;
        if thread == 0u { part = Range(0u, 0u, vec2u(0u)); }
        workgroupBarrier();
        let span = span_of(thread);
        var need = range.need;
        if round == 0u { need = multiply_long(span.total, random(position)).yz; }
        if !is_less(need, span.before) && is_less(need, add(span.before, sum)) {
            part = Range(first, end, subtract(need, span.before));
        }
        range = workgroupUniformLoad(&part);
    }
    // Nothing is kept only where no logit is above -inf: the best id stays.
    if thread == 0u && range.first < range.end { chosen = id_of(range.first, items); }
    workgroupBarrier();
}

fn largest(eight: Eight) -> u32 {
    let four = max(eight.a, eight.b);
    return max(max(four.x, four.y), max(four.z, four.w));
}

// The lowest id with the largest key; id 0 when no logit is above -inf. A thread's own largest key
// is returned.
fn find_best(thread: u32) -> u32 {
    var own_key = 0u;
    var own_first = thread;
    var first = thread;
    if is_plain {
        // The pass that greedy sampling is: without a thought for the end.
        for (; first + 7u * THREADS < step.vocab; first += 8u * THREADS) {
            let l = step.logits_at + first;
            let a = vec4f(arena[l], arena[l + THREADS], arena[l + 2u * THREADS], arena[l + 3u * THREADS]);
            let b = vec4f(arena[l + 4u * THREADS], arena[l + 5u * THREADS],
                arena[l + 6u * THREADS], arena[l + 7u * THREADS]);
            let most = largest(Eight(key_of(bitcast<vec4u>(a)), key_of(bitcast<vec4u>(b))));
            own_first = select(own_first, first, most > own_key);
            own_key = max(own_key, most);
        }
    }
    for (; first < step.vocab; first += 8u * THREADS) {
        let ids = indices(first, THREADS);
        let most = largest(Eight(four_keys(ids.a), four_keys(ids.b)));
        own_first = select(own_first, first, most > own_key);
        own_key = max(own_key, most);
    }
    let ids = indices(own_first, THREADS);
    let keys = Eight(four_keys(ids.a), four_keys(ids.b));
    var i = 0u;
    while i < 7u && at(keys, i) != own_key { i++; }
    let own_id = at(ids, i);
    atomicMax(&best_key, own_key);
    workgroupBarrier();
    if own_key == atomicLoad(&best_key) { atomicMin(&best_id, own_id); }
    workgroupBarrier();
    return own_key;
}

// Lists the ids that top-k may keep, and returns how many; where there are more than the list holds,
// all ids are the items. The k-th largest of the threads' own largest is at most the k-th largest of
// all, so nothing as far as it or nearer is left out; what stands a little farther is listed too, which
// keeps rounding out of it and does no harm.
fn list_top_k(thread: u32, own_key: u32) -> u32 {
    sums[thread] = vec2u(own_key, 0u);
    if thread == 0u {
        bound = 0u;
        atomicStore(&n_listed, 0u);
    }
    workgroupBarrier();
    var n_above = 0u;
    for (var t = 0u; t < THREADS; t++) {
        let other = sums[t].x;
        if other > own_key || (other == own_key && t < thread) { n_above++; }
    }
    if n_above + 1u == params[TOP_K] { bound = own_key; }
    let q = f32(distances_of(vec4u(workgroupUniformLoad(&bound))).x);
    let margin = (q + 2.0) / bitcast<f32>(params[SCALE]) + abs(max_logit) * 2.4e-7;
    let least = max(key_of(vec4u(bitcast<u32>(max_logit - margin))).x, 1u);
    for (var first = thread; first < step.vocab; first += 8u * THREADS) {
        let ids = indices(first, THREADS);
        let keys = Eight(four_keys(ids.a), four_keys(ids.b));
        if largest(keys) < least { continue; }
        for (var i = 0u; i < 8u; i++) {
            if at(keys, i) >= least {
                let n = atomicAdd(&n_listed, 1u);
                if n < LIST { list[n] = at(ids, i); }
            }
        }
    }
    workgroupBarrier();
    if thread == 0u { n_items = atomicLoad(&n_listed); }
    let n = workgroupUniformLoad(&n_items);
    if n == 0u || n > LIST { return step.vocab; }

    // In order: an id's place is the number of smaller ones.
    let mine = vec2u(list[thread], list[thread + THREADS]);
    var place = vec2u(0u);
    for (var i = 0u; i < n; i++) { place += vec2u(vec2u(list[i]) < mine); }
    workgroupBarrier();
    if thread < n { list[place.x] = mine.x; }
    if thread + THREADS < n { list[place.y] = mine.y; }
    workgroupBarrier();
    return n;
}

fn finish(id: u32, position: u32) {
    if params[PENALTIES] != 0u { counts[id] += 1u; }
    var is_stop = false;
    for (var i = 0u; i < params[N_STOP]; i++) { is_stop = is_stop || params[STOP + i] == id; }
    let n_sampled = ctl[STEP] + 1u;
    let is_full = n_sampled >= ctl[LIMIT] || position >= ctl[CAPACITY];
    ctl[PAST] = position;
    ctl[LEN] = 1u;
    ctl[TOKEN] = id;
    ctl[STEP] = n_sampled;
    ctl[DONE] = select(select(0u, 2u, is_full), 1u, is_stop);
    ctl[RING] += 1u;
}

@compute @workgroup_size(THREADS)
fn sample(@builtin(local_invocation_index) thread: u32) {
    let position = ctl[PAST] + ctl[LEN];
    if thread == 0u {
        is_done = ctl[DONE];
        atomicStore(&best_id, NONE);
    }
    if workgroupUniformLoad(&is_done) != 0u { return; }
    is_plain = params[PENALTIES] == 0u;

    let own_key = find_best(thread);
    if thread == 0u { chosen = atomicLoad(&best_id); }

    if params[GREEDY] == 0u {
        max_logit = logits_of(vec4u(atomicLoad(&best_key))).x;
        var items = step.vocab;
        var cut = Cut(FAR, 0u);
        if params[TOP_K] != 0u {
            if params[TOP_K] <= THREADS { items = list_top_k(thread, own_key); }
            cut = tighten(thread, items, cut, false);
        }
        if params[TOP_P] < TOP_P_OFF { cut = tighten(thread, items, cut, true); }
        draw(thread, items, cut, position);
    }
    if thread == 0u { finish(chosen, position); }
}
