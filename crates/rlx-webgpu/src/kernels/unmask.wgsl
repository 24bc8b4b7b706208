// unmask      canvas[i] = ids[i] where the prediction is placed, by the canvas's plan (rlx-core, sample/canvas.rs)
// shapes      ids, confidence u32[B]    canvas u32[16 + B]
// bytes       16 for each position; without enough sure ones 8 more for each pair of masks
// launch      (1, 1, 1) workgroup of 256 threads, a thread strides the positions
// numerics    integers
struct Step { block: u32, ids: u32, confidence: u32, canvas: u32 }
{{bindings}}
// Words of a canvas: rlx-core's sample/canvas.rs.
const MASK = 0u;
const PROMPT = 1u;
const STEPS = 2u;
const THRESHOLD = 3u;
const EDITING = 4u;
const POST = 5u;
const PASS = 6u;
const AFTER = 7u;
const FINISHED = 8u;
const FIXED = 9u;
const EDITED = 10u;
const SPREAD = 12u;
const IDS = 16u;
const NO_EDITING = 0xffffffffu;
const THREADS = 256u;

var<workgroup> is_finished: u32;
var<workgroup> n_masked: atomic<u32>;
var<workgroup> n_sure: atomic<u32>;
var<workgroup> n_fixed: atomic<u32>;
var<workgroup> n_edited: atomic<u32>;
var<workgroup> n_left: atomic<u32>;  // masks

fn plan(word: u32) -> u32 { return {{canvas}}[step.canvas + word]; }
fn token(i: u32) -> u32 { return plan(IDS + i); }
fn predicted(i: u32) -> u32 { return {{ids}}[step.ids + i]; }
fn confidence(i: u32) -> u32 { return {{confidence}}[step.confidence + i]; }

@compute @workgroup_size(THREADS)
fn unmask(@builtin(local_invocation_index) thread: u32) {
    if thread == 0u {
        is_finished = plan(FINISHED);
        atomicStore(&n_masked, 0u);
        atomicStore(&n_sure, 0u);
        atomicStore(&n_fixed, 0u);
        atomicStore(&n_edited, 0u);
        atomicStore(&n_left, 0u);
    }
    if workgroupUniformLoad(&is_finished) != 0u { return; }
    let mask = plan(MASK);
    let threshold = plan(THRESHOLD);
    let editing = plan(EDITING);
    for (var i = thread; i < step.block; i += THREADS) {
        if token(i) == mask {
            atomicAdd(&n_masked, 1u);
            if confidence(i) > threshold { atomicAdd(&n_sure, 1u); }
        }
    }
    workgroupBarrier();
    let steps = max(plan(STEPS), 1u);
    let spread = plan(SPREAD);
    let planned = max(spread / steps + u32(plan(PASS) < spread % steps), 1u);
    let by_threshold = atomicLoad(&n_sure) >= planned;
    // All decide by the canvas as it was: a bit for each of a thread's positions, of which it has 32 at most.
    var moves = 0u;
    for (var k = 0u; k < 32u; k++) {
        let i = k * THREADS + thread;
        if i >= step.block { break; }
        let own = confidence(i);
        var does = false;
        if token(i) != mask {
            does = editing != NO_EDITING && i >= plan(PROMPT) && predicted(i) != token(i) && own > editing;
            if does { atomicAdd(&n_edited, 1u); }
        } else {
            if by_threshold {
                does = own > threshold;
            } else {
                // Likelier masked positions, and as likely ones before it.
                var ahead = 0u;
                for (var j = 0u; j < step.block; j++) {
                    let other = confidence(j);
                    if token(j) == mask && (other > own || (other == own && j < i)) { ahead++; }
                }
                does = ahead < planned;
            }
            if does { atomicAdd(&n_fixed, 1u); }
        }
        if does { moves |= 1u << k; }
        if select(token(i), predicted(i), does) == mask { atomicAdd(&n_left, 1u); }
    }
    storageBarrier();
    workgroupBarrier();
    for (var k = 0u; k < 32u; k++) {
        let i = k * THREADS + thread;
        if (moves & (1u << k)) != 0u { {{canvas}}[step.canvas + IDS + i] = predicted(i); }
    }
    workgroupBarrier();
    if thread == 0u {
        let masked = atomicLoad(&n_masked);
        let edited = atomicLoad(&n_edited);
        let fixed = atomicLoad(&n_fixed);
        let after = plan(AFTER) + u32(masked == 0u);
        let ends = editing == NO_EDITING || after >= plan(POST) || (masked == 0u && edited == 0u);
        {{canvas}}[step.canvas + PASS] += 1u;
        {{canvas}}[step.canvas + AFTER] = after;
        {{canvas}}[step.canvas + FIXED] = fixed;
        {{canvas}}[step.canvas + EDITED] = edited;
        {{canvas}}[step.canvas + FINISHED] = u32(ends && atomicLoad(&n_left) == 0u);
    }
}
