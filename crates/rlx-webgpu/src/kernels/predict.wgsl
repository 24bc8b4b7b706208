// predict     ids[m] = argmax, or a draw, of row m without the mask; confidence[m] = its share of all, 2^-31
//             where the position has that (rlx-core, sample/predict.rs and sample/canvas.rs)
// shapes      logits f32[M, V]    params u32[32]    canvas u32[16 + M]    ids, confidence u32[M]
// bytes       4 for each logit, twice; three times where a token is drawn
// launch      a workgroup of 256 threads is a row
// numerics    one f32 subtraction and product a logit, then integers: the core's bits
struct Step {
    rows: u32, vocab: u32, logits: u32, params: u32, canvas: u32, ids: u32, confidence: u32, unused: u32,
}
{{bindings}}
const GREEDY = 0u;
const SCALE = 1u;
const MIN_P = 4u;
const SEED_LO = 10u;
const SEED_HI = 11u;
const THREADS = 256u;
const FAR = 0x200000u;
const NONE = 0xffffffffu;

var<workgroup> best_key: atomic<u32>;   // of all tokens
var<workgroup> other_key: atomic<u32>;  // of those that are not the mask
var<workgroup> other_id: atomic<u32>;
var<workgroup> sums: array<vec2u, THREADS>;

{{shared}}
fn key_at(row: u32, id: u32) -> u32 {
    return key_of(vec4u({{logits}}[step.logits + row * step.vocab + id])).x;
}

// How far a logit is below the largest, in 2^-16 octaves of weight, at most FAR.
fn distance(key: u32, largest: f32, scale: f32) -> u32 {
    let gap = min(largest - logits_of(vec4u(key)).x, 33554432.0);
    return select(u32(min(gap * scale, 2097152.0)), FAR, key == 0u);
}

fn kept(key: u32, largest: f32, scale: f32, least: u32) -> u32 {
    let w = weight(distance(key, largest, scale));
    return select(0u, w, w >= least);
}

// floor(2^31 part / whole) for part <= whole and whole < 2^63; 0 of nothing.
fn share_of(part: u32, whole: vec2u) -> u32 {
    if whole.x == 0u && whole.y == 0u { return 0u; }
    var rest = vec2u(part, 0u);
    var share = 0u;
    for (var i = 0u; i < 32u; i++) {
        share <<= 1u;
        if !is_less(rest, whole) {
            rest = subtract(rest, whole);
            share |= 1u;
        }
        rest = add(rest, rest);
    }
    return share;
}

@compute @workgroup_size(THREADS)
fn predict(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.y * launched.x + group.x;
    if row >= step.rows { return; }
    // The token that is not chosen, if there is one.
    var mask = {{canvas}}[step.canvas + {{mask}}u];
    let is_late = {{canvas}}[step.canvas + {{pass}}u] >= 2u * step.rows;
    if !is_late && {{canvas}}[step.canvas + {{first}}u + row] != mask { mask = NONE; }
    let greedy = {{params}}[step.params + GREEDY] != 0u;
    let scale = bitcast<f32>(select({{params}}[step.params + SCALE], {{plain_scale}}u, greedy));
    let least = select({{params}}[step.params + MIN_P], 0u, greedy);
    if thread == 0u {
        atomicStore(&best_key, 0u);
        atomicStore(&other_key, 0u);
        atomicStore(&other_id, NONE);
    }
    workgroupBarrier();

    // The largest of all, and the lowest id with the largest that is not the mask.
    var own_key = 0u;
    var own_id = NONE;
    for (var id = thread; id < step.vocab; id += THREADS) {
        let key = key_at(row, id);
        if id == mask {
            atomicMax(&best_key, key);
        } else if key > own_key {
            own_key = key;
            own_id = id;
        }
    }
    atomicMax(&best_key, own_key);
    atomicMax(&other_key, own_key);
    workgroupBarrier();
    if own_id != NONE && own_key == atomicLoad(&other_key) { atomicMin(&other_id, own_id); }
    workgroupBarrier();
    let largest_key = atomicLoad(&best_key);
    let best = select(atomicLoad(&other_id), u32(mask == 0u), atomicLoad(&other_id) == NONE);
    let largest = logits_of(vec4u(largest_key)).x;

    // For a draw a thread has ids in a row, of which one is found later.
    let size = (step.vocab + THREADS - 1u) / THREADS;
    let first = min(thread * size, step.vocab);
    let end = min(first + size, step.vocab);
    var sum = vec2u(0u);
    let stride = select(1u, THREADS, greedy);
    for (var id = select(first, thread, greedy); id < select(end, step.vocab, greedy); id += stride) {
        sum = add(sum, vec2u(kept(key_at(row, id), largest, scale, least), 0u));
    }
    sums[thread] = sum;
    workgroupBarrier();

    if thread == 0u {
        var total = vec2u(0u);
        for (var t = 0u; t < THREADS; t++) { total = add(total, sums[t]); }
        var id = best;
        if !greedy && largest_key != 0u {
            var others = total;
            var of_mask = 0u;
            if mask < step.vocab {
                of_mask = kept(key_at(row, mask), largest, scale, least);
                others = subtract(total, vec2u(of_mask, 0u));
            }
            let position = {{canvas}}[step.canvas + {{start}}u] + row;
            var need = multiply_long(others, random(position, {{canvas}}[step.canvas + {{pass}}u])).yz;
            for (var t = 0u; t < THREADS; t++) {
                let from_id = min(t * size, step.vocab);
                var own = sums[t];
                if mask >= from_id && mask < min(from_id + size, step.vocab) { own = subtract(own, vec2u(of_mask, 0u)); }
                if is_less(need, own) {
                    for (var other = from_id; other < min(from_id + size, step.vocab); other++) {
                        if other == mask { continue; }
                        let w = vec2u(kept(key_at(row, other), largest, scale, least), 0u);
                        if is_less(need, w) { id = other; break; }
                        need = subtract(need, w);
                    }
                    break;
                }
                need = subtract(need, own);
            }
        }
        var confidence = 0u;
        if largest_key != 0u && id < step.vocab {
            confidence = share_of(kept(key_at(row, id), largest, scale, least), total);
        }
        {{ids}}[step.ids + row] = id;
        {{confidence}}[step.confidence + row] = confidence;
    }
}
