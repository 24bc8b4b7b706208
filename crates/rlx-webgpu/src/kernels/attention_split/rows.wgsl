// attention   of one row, undivided: acc[k S + j, h] = sum exp(s - m) V[p], stats = m, sum exp(s - m) over
//   split     the positions p of split j, with scores s and their maximum m, as attention's{{what}}
// shapes      q f32[1, H*E]    K, V {{kv}}[kv heads, C, E]    acc f32[kv heads S, G*E]    stats f32[.., 2 G]
// bytes       the split's rows of K and V once for all {{group}} heads of the group
// launch      a workgroup of {{threads}} threads is a split of a key and value head: a thread scores a
//             position for all heads, then sums {{piece}} of every {{slices}}th row of V
// numerics    f32; a running maximum; tanh by exp, within 3e-7
{{step}}{{bindings}}
const E = {{e}}u;
const GROUP = {{group}}u;
const THREADS = {{threads}}u;
const QUADS = {{quads}}u;    // of a row of the cache
const SLICES = {{slices}}u;
const FOURS = E / 4u;
const BLOCK = {{block}}u;    // positions of a split are a multiple of it
const PARTS = 16u;           // of the positions whose maximum is looked for

var<workgroup> control: vec3u;
var<workgroup> query: array<vec4f, GROUP * FOURS>;
var<workgroup> weights: array<f32, GROUP * THREADS>;
var<workgroup> parts: array<f32, GROUP * PARTS>;
var<workgroup> sums: array<vec4f, SLICES * FOURS>;

{{common}}
{{capped}}
{{readers}}{{turn}}
fn most_of(g: u32, before: f32) -> f32 {
    var most = before;
    for (var i = 0u; i < PARTS; i++) { most = max(most, parts[g * PARTS + i]); }
    return most;
}

@compute @workgroup_size({{threads}})
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
{{start}}    let slice = thread / QUADS;
    let lane = thread % QUADS;
    {{state}}

    for (var first = start; first < end; first += THREADS) {
        let position = first + thread;
        {{no_scores}}
        if position < end {
            let k = cache + {{key_row}} * QUADS;
            for (var d = 0u; d < QUADS; d++) {
                let w = {{key}};
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
                let w = {{value}};
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
