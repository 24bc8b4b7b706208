// sample      id = argmax, or a draw after penalties, top-k, top-p, min-p; advances ctl (rlx-core, sample/mod.rs)
// shapes      logits f32[vocab] at arena[logits_at]    ctl u32[16]    params u32[32], then a bit a token    counts u32[vocab]
// bytes       4*vocab a pass, 8*vocab with penalties; passes: best 1, then with top-k of 256 at most 1, else
//             draw 1, top-k and top-p 2 each, a split tie 2; without penalties the first two by 16 bytes
// launch      (1, 1, 1) workgroup of 256 threads: a thread strides the ids, or owns a block where order counts
// numerics    one f32 subtraction and product a logit, then integers: the core's bits, penalties aside

struct Step { vocab: u32, quads_at: u32, unused0: u32, unused1: u32 }  // quads_at in 16 bytes

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read_write> arena: array<vec4f>;  // only read here
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
const MASKED = 29u;
const MASK = 32u;
const TOP_P_OFF = 0x80000000u;

const THREADS = 256u;
const NONE = 0xffffffffu;
const FAR = 0x200000u;        // 32 octaves of 2^16: the least distance whose weight is 0
const FINE_BITS = 11u;        // of a distance's 21 bits; the coarse bins take the upper 10
const COARSE_BINS = 1024u;
const FINE_BINS = 2048u;
const LIST = 512u;            // ids that may be listed instead of going through all of them
// A counts word: how often the token was generated, whether it is in the prompt, and in the upper half its bias.
const GENERATED = 0x7fffu;
const OCCURS = 0xffffu;

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
var<private> is_plain: bool;  // no penalties, no biases, no mask

fn finish(id: u32, position: u32) {
    if params[PENALTIES] != 0u { counts[id] += select(0u, 1u, (counts[id] & GENERATED) != GENERATED); }
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
        atomicStore(&best_key, 0u);
        atomicStore(&best_id, NONE);
    }
    if workgroupUniformLoad(&is_done) != 0u { return; }
    is_plain = params[PENALTIES] == 0u && params[MASKED] == 0u;

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
