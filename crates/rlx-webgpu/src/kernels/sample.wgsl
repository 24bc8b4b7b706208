// sample      id = argmax, or a draw after penalties, top-k, top-p, min-p; advances ctl (rlx-core, sample/mod.rs)
// shapes      logits f32[vocab] at arena[logits_at]    ctl u32[16]    params u32[32]    counts u32[vocab]
// bytes       4*vocab a pass, 8*vocab with penalties; passes: best 1, draw 2, top-k and top-p 2 each, a split tie 2
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
const GENERATED = 0x7fffffffu;  // bits of a counts word; the other one says: in the prompt

var<workgroup> is_done: u32;
var<workgroup> best_key: atomic<u32>;
var<workgroup> best_id: atomic<u32>;
// Counts of 2048 fine bins; or sums of 1024 coarse ones, low words and then high words.
var<workgroup> bins: array<atomic<u32>, FINE_BINS>;
var<workgroup> sums: array<vec2u, THREADS>;
var<workgroup> found: Found;
var<workgroup> chosen: u32;

var<private> max_logit: f32;

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

// Orders f32 bits as integers: no comparison of floats meets a NaN or an infinity, which WGSL
// lets an implementation assume away. 0 for NaN and -inf, which are never taken.
fn key_of(bits: u32) -> u32 {
    if (bits & 0x7fffffffu) > 0x7f800000u || bits == 0xff800000u { return 0u; }
    return select(bits | 0x80000000u, ~bits, bits > 0x80000000u);  // -0 and 0 alike
}

fn key_at(logit: f32) -> u32 { return key_of(bitcast<u32>(logit)); }

// The logit after penalties, as a key.
fn key(id: u32) -> u32 {
    let logit = arena[step.logits_at + id];
    let raw = key_of(bitcast<u32>(logit));
    if raw == 0u || params[PENALTIES] == 0u { return raw; }
    let word = counts[id];
    if word == 0u { return raw; }
    let repetition = bitcast<f32>(params[select(REPETITION, REPETITION_RECIPROCAL, logit > 0.0)]);
    var penalised = logit * repetition;
    let n_generated = word & GENERATED;
    if n_generated > 0u {
        let frequency = bitcast<f32>(params[FREQUENCY]);
        penalised -= frequency * f32(n_generated) + bitcast<f32>(params[PRESENCE]);
    }
    return key_of(bitcast<u32>(penalised));
}

// The logit of a key, brought to +-2^126 so that a difference of two is finite.
fn logit_of(key: u32) -> f32 {
    let near = clamp(key, 0x017fffffu, 0xfe800000u);
    return bitcast<f32>(select(~near, near ^ 0x80000000u, near >= 0x80000000u));
}

// How far a logit is below the largest, in 2^-16 octaves of weight, at most FAR. The gap stops at
// 2^25, which any scale brings to FAR, so that the product is finite.
fn distance_of(id: u32) -> u32 {
    let k = key(id);
    if k == 0u { return FAR; }
    let gap = min(max_logit - logit_of(k), 33554432.0);
    return u32(min(gap * bitcast<f32>(params[SCALE]), 2097152.0));
}

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

// The ids that a thread owns where order counts: (first, end).
fn block_of(thread: u32) -> vec2u {
    let size = (step.vocab + THREADS - 1u) / THREADS;
    let first = min(thread * size, step.vocab);
    return vec2u(first, min(first + size, step.vocab));
}

struct Span { before: vec2u, total: vec2u }

// The sum of `sums` before the thread's own, and of all.
fn span_of(thread: u32) -> Span {
    var span = Span(vec2u(0u), vec2u(0u));
    for (var t = 0u; t < THREADS; t++) {
        if t == thread { span.before = span.total; }
        span.total = add(span.total, sums[t]);
    }
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
fn tighten(thread: u32, cut: Cut, by_weight: bool) -> Cut {
    clear_bins(thread);
    for (var id = thread; id < step.vocab; id += THREADS) {
        let q = distance_of(id);
        if keeps(cut, q, id) {
            let more = worth(q, by_weight);
            let old = atomicAdd(&bins[q >> FINE_BITS], more);
            if old + more < old { atomicAdd(&bins[COARSE_BINS + (q >> FINE_BITS)], 1u); }
        }
    }
    workgroupBarrier();
    let coarse = reach(thread, false, by_weight, 0u, vec2u(params[TOP_K], 0u));
    if coarse.bin == NONE { return cut; }

    clear_bins(thread);
    let first = coarse.bin << FINE_BITS;
    for (var id = thread; id < step.vocab; id += THREADS) {
        let q = distance_of(id);
        if q >> FINE_BITS == coarse.bin && keeps(cut, q, id) { atomicAdd(&bins[q - first], 1u); }
    }
    workgroupBarrier();
    let fine = reach(thread, true, by_weight, first, coarse.need);
    let q = first + fine.bin;
    if fine.n_ties == NONE {
        // All of this distance that the old cut keeps.
        if q + 1u > cut.q { return cut; }
        return Cut(q + 1u, 0u);
    }

    // The tie is split: the id after its last kept token.
    let block = block_of(thread);
    var n_own = 0u;
    for (var id = block.x; id < block.y; id++) {
        if distance_of(id) == q && keeps(cut, q, id) { n_own++; }
    }
    sums[thread] = vec2u(n_own, 0u);
    workgroupBarrier();
    let n_before = span_of(thread).before.x;
    if n_before < fine.n_ties && fine.n_ties <= n_before + n_own {
        var n = n_before;
        for (var id = block.x; n < fine.n_ties; id++) {
            if distance_of(id) == q && keeps(cut, q, id) { n++; }
            found.bin = id + 1u;
        }
    }
    return Cut(q, workgroupUniformLoad(&found).bin);
}

// ---- the draw ----

fn kept_weight(cut: Cut, id: u32) -> u32 {
    let q = distance_of(id);
    if !keeps(cut, q, id) { return 0u; }
    let w = weight(q);
    return select(0u, w, w >= params[MIN_P]);
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

// Sets `chosen` to the first kept id whose cumulative weight exceeds random * total >> 32.
fn draw(thread: u32, cut: Cut, position: u32) {
    let block = block_of(thread);
    var sum = vec2u(0u);
    for (var id = block.x; id < block.y; id++) {
        sum = add(sum, vec2u(kept_weight(cut, id), 0u));
    }
    sums[thread] = sum;
    workgroupBarrier();
    let span = span_of(thread);
    let target_sum = multiply_long(span.total, random(position)).yz;
    if !is_less(target_sum, span.before) && is_less(target_sum, add(span.before, sum)) {
        var reached = span.before;
        var id = block.x;
        loop {
            reached = add(reached, vec2u(kept_weight(cut, id), 0u));
            if is_less(target_sum, reached) { break; }
            id++;
        }
        chosen = id;
    }
    workgroupBarrier();
}

// The lowest id with the largest key; id 0 when no logit is above -inf.
fn find_best(thread: u32) {
    var own_key = 0u;
    var own_id = NONE;
    var id = thread;
    if params[PENALTIES] == 0u {
        // Eight loads on their way at once: one after the other, each waits for memory alone.
        for (; id + 7u * THREADS < step.vocab; id += 8u * THREADS) {
            let at = step.logits_at + id;
            let a = vec4f(arena[at], arena[at + THREADS], arena[at + 2u * THREADS], arena[at + 3u * THREADS]);
            let b = vec4f(arena[at + 4u * THREADS], arena[at + 5u * THREADS],
                arena[at + 6u * THREADS], arena[at + 7u * THREADS]);
            let keys = array<u32, 8>(key_at(a.x), key_at(a.y), key_at(a.z), key_at(a.w),
                key_at(b.x), key_at(b.y), key_at(b.z), key_at(b.w));
            for (var i = 0u; i < 8u; i++) {
                if own_id == NONE || keys[i] > own_key {
                    own_key = keys[i];
                    own_id = id + i * THREADS;
                }
            }
        }
    }
    for (; id < step.vocab; id += THREADS) {
        let k = key(id);
        if own_id == NONE || k > own_key {
            own_key = k;
            own_id = id;
        }
    }
    atomicMax(&best_key, own_key);
    workgroupBarrier();
    if own_key == atomicLoad(&best_key) { atomicMin(&best_id, own_id); }
    workgroupBarrier();
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

    find_best(thread);
    if thread == 0u { chosen = atomicLoad(&best_id); }

    if params[GREEDY] == 0u {
        max_logit = logit_of(atomicLoad(&best_key));
        var cut = Cut(FAR, 0u);
        if params[TOP_K] != 0u { cut = tighten(thread, cut, false); }
        if params[TOP_P] < TOP_P_OFF { cut = tighten(thread, cut, true); }
        draw(thread, cut, position);
    }
    if thread == 0u { finish(chosen, position); }
}
