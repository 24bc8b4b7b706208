// attention   of one row, undivided: acc[k S + j, h] = sum exp(s - m) V[p], stats = m, sum exp(s - m) over
//   split     the positions p of split j, with scores s and their maximum m, as attention's
// shapes      q f32[1, H*E]    K, V {{kv}}[kv heads, C, E]    acc f32[kv heads S, G*E]    stats f32[.., 2 G]
// bytes       the split's rows of K and V once for all {{group}} heads of the group
// launch      a workgroup of {{threads}} threads is a split of a key and value head: a thread scores a
//             position for all heads, then sums 16 bytes of every {{slices}}th row of V
// numerics    f32; a running maximum; tanh by exp, within 3e-7
struct Step {
    splits: u32, least: u32, capacity: u32, q: u32, acc: u32, stats: u32, ctl: u32, scale: f32,
    window: u32, softcap: f32, rows: u32, k: u32, v: u32,
}
{{bindings}}
const E = {{e}}u;
const GROUP = {{group}}u;
const THREADS = {{threads}}u;
const QUADS = {{quads}}u;    // of a row of the cache
const SLICES = {{slices}}u;
const FOURS = E / 4u;
const BLOCK = {{block}}u;    // positions of a split are a multiple of it
const PARTS = 16u;           // of the positions whose maximum is looked for

var<workgroup> control: vec2u;
var<workgroup> query: array<vec4f, GROUP * FOURS>;
var<workgroup> weights: array<f32, GROUP * THREADS>;
var<workgroup> parts: array<f32, GROUP * PARTS>;
var<workgroup> sums: array<vec4f, SLICES * FOURS>;

{{common}}
{{capped}}
fn most_of(g: u32, before: f32) -> f32 {
    var most = before;
    for (var i = 0u; i < PARTS; i++) { most = max(most, parts[g * PARTS + i]); }
    return most;
}

@compute @workgroup_size({{threads}})
fn attention_split(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = id.y * launched.x + id.x;
    if row >= step.rows { return; }
    let kv = row / step.splits;
    let j = row % step.splits;
    if thread == 0u { control = vec2u({{ctl}}[step.ctl], {{ctl}}[step.ctl + 1u]); }
    // Loop bounds must be the same for the whole workgroup, and known to be.
    let ctl = workgroupUniformLoad(&control);
    let end_of_all = min(ctl.x + 1u, step.capacity);
    let start_of_all = ctl.x - min(ctl.x, step.window);
    let seen = max(end_of_all, start_of_all) - start_of_all;
    let each = (max(step.least, (seen + step.splits - 1u) / step.splits) + BLOCK - 1u) / BLOCK * BLOCK;
    let start = min(start_of_all + j * each, end_of_all);
    let end = min(start + each, end_of_all);
    if start >= end || ctl.y == 0u {
        for (var d = thread; d < GROUP * E; d += THREADS) { {{out}}[step.acc + row * GROUP * E + d] = 0u; }
        if thread < GROUP {
            {{out}}[step.stats + (row * GROUP + thread) * 2u] = 0xff800000u;
            {{out}}[step.stats + (row * GROUP + thread) * 2u + 1u] = 0u;
        }
        return;
    }
    for (var i = thread; i < GROUP * FOURS; i += THREADS) {
        let at = step.q + kv * GROUP * E + i * 4u;
        query[i] = step.scale * bitcast<vec4f>(vec4u({{q}}[at], {{q}}[at + 1u], {{q}}[at + 2u], {{q}}[at + 3u]));
    }
    let cache = kv * step.capacity * QUADS;
    let slice = thread / QUADS;
    let lane = thread % QUADS;
    {{state}}
    workgroupBarrier();

    for (var first = start; first < end; first += THREADS) {
        let position = first + thread;
        {{no_scores}}
        if position < end {
            let k = step.k + cache + position * QUADS;
            for (var d = 0u; d < QUADS; d++) {
                let w = {{k}}[k + d];
                {{halves}}
                {{score}}
            }
            {{cap}}
        }
        {{keep_scores}}
        workgroupBarrier();
        if thread < GROUP * PARTS {
            var most = -3.0e38;
            let begin = thread / PARTS * THREADS + thread % PARTS;
            for (var i = 0u; i < THREADS / PARTS; i++) { most = max(most, weights[begin + i * PARTS]); }
            parts[thread] = most;
        }
        workgroupBarrier();
        {{fade}}
        workgroupBarrier();
        if slice < SLICES {
            let count = min(THREADS, end - first);
            for (var i = slice; i < count; i += SLICES) {
                let w = {{v}}[step.v + cache + (first + i) * QUADS + lane];
                {{halves}}
                {{add}}
            }
        }
        workgroupBarrier();
    }

    {{keep_totals}}
    workgroupBarrier();
    if thread < GROUP {
        var total = 0.0;
        for (var i = 0u; i < THREADS; i++) { total += weights[thread * THREADS + i]; }
        {{out}}[step.stats + (row * GROUP + thread) * 2u + 1u] = bitcast<u32>(total);
    }
    if thread == 0u {
        {{keep_most}}
    }
    {{finish}}
}
