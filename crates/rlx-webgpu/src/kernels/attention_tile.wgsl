// attention   y[s, h, :] = sum_j softmax_j(scale q[s, h, :] . k[j, :]) v[j, :], several rows; j from
//             past + s - window to past + s, or to the end of its block; a sink is one more score      arXiv:2205.14135
//   split     of those j that a split has: y = sum_j exp(s_j - m) v_j undivided, stats = m, sum_j exp(s_j - m), with
//             scores s_j and their maximum m
// shapes      q f32[S, H*E]    k, v caches [K, C, E] {{kv}}, heads h of a group share one    y f32[S, H*E]
//   split     y f32[K * places * {{tile}}, G*E]    stats f32[.., 2 G]
// bytes       keys and values of what a tile's rows see once, 4 for an element of q every {{threads}} positions and of y;
//             from the workgroup's memory 12 floats for 32 products, of which a query and a position have 2 E
// launch      a workgroup of {{threads}} threads has 32 queries, {{tile}} rows of a group, and a split if there are any.
//             A step takes {{threads}} positions: a thread scores 8 queries and 4 positions, {{chunk}} dimensions of
//             queries and keys in memory at a time, then sums 8 queries and 4 dimensions, weights of 32 positions in
//             memory and values of {{values}} of them
// numerics    f32; online softmax; scores of positions that a row does not see are no numbers of its sum
struct Step {
    heads: u32, rows: u32, places: u32, capacity: u32, q: u32, k: u32, v: u32, y: u32, ctl: u32,
    scale: f32, window: u32, softcap: f32, sinks: u32, stats: u32, least: u32,
}
{{bindings}}
const E = {{e}}u;
const FOURS = E / 4u;
const GROUP = {{group}}u;      // query heads that share keys and values
const TILE = {{tile}}u;        // rows of a workgroup
const THREADS = {{threads}}u;  // and positions of a step
const LANES = THREADS / 4u;    // threads of 8 queries, with 4 positions each
const CHUNK = {{chunk}}u;      // dimensions of queries and keys at a time
const PITCH = LANES + 1u;      // of a dimension's keys, four positions each
const QUERIES = CHUNK * PITCH; // where queries are behind keys, eight fours to a dimension
const VALUES = {{values}}u;    // positions whose values are in memory at a time
const WEIGHTS = 32u * 9u;      // where values are behind weights of 32 positions, nine fours each
const COLUMNS = {{columns}}u;  // threads that sum a position's values
const SLICES = {{slices}}u;    // that share the positions of 8 queries
const PARTS = THREADS / 16u;   // of the positions, each with a maximum

var<workgroup> control: vec2u;
var<workgroup> memory: array<vec4f, {{held}}>;

{{common}}
{{readers}}
{{capped}}
fn scored(score: vec4f, position: vec4u, own: u32, end: u32) -> vec4f {
    let seen = (position < vec4u({{block_end}})) & (position + vec4u(min(own, step.window)) >= vec4u(own));
    return select(vec4f(-3.0e38), score, seen & (position < vec4u(end)));
}
fn weights_below(score: vec4f, highest: f32) -> vec4f {
    return select(vec4f(0.0), exp(score - vec4f(highest)), score > vec4f(-2.9e38));
}
fn most_of(x: vec4f) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn sum_of(x: vec4f) -> f32 { return x.x + x.y + x.z + x.w; }
{{stores}}
@compute @workgroup_size({{threads}})
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let at = id.y * launched.x + id.x;
    let kv_head = at / step.places;
    if kv_head * GROUP >= step.heads { return; }
    if thread == 0u { control = vec2u({{ctl}}[step.ctl], {{ctl}}[step.ctl + 1u]); }
    // Loop bounds must be the same for the whole workgroup, and known to be.
    let ctl = workgroupUniformLoad(&control);
    {{start}}
    let cache = kv_head * step.capacity;

    let lane = thread % LANES;
    let eight = thread / LANES;
    let column = lane % COLUMNS;
    let slice = lane / COLUMNS;
    // Where the four queries start of which this thread loads a dimension.
    let query_at = vec4u({{query_at}});
    var most0 = vec4f(-3.0e38);
    var most1 = vec4f(-3.0e38);
    var total0 = vec4f();
    var total1 = vec4f();
    {{sink}}
    {{sums}}
    for (var block = first; block < end; block += THREADS) {
        // The row of four positions of which this thread loads the keys of four dimensions.
        let four = block + thread / (CHUNK / 4u) * 4u;
        let key_at = (cache + vec4u({{key_rows}})) * FOURS + thread % (CHUNK / 4u);
        var query = vec4f();
        {{raws}}
        {{load_keys}}
        {{scores}}
        for (var chunk = 0u; chunk < E; chunk += CHUNK) {
            workgroupBarrier();
            {{keep_keys}}
            workgroupBarrier();
            if chunk + CHUNK < E {
                let next = chunk + CHUNK;
                {{load_next_keys}}
            }
            for (var d = 0u; d < {{dims}}; d++) {
                let q0 = memory[QUERIES + d * 8u + eight * 2u];
                let q1 = memory[QUERIES + d * 8u + eight * 2u + 1u];
                let k = memory[d * PITCH + lane];
                {{score}}
            }
        }
        {{cap}}
        let position = vec4u(block + lane * 4u) + vec4u(0u, 1u, 2u, 3u);
        {{mask}}

        // The largest score of each query, first of a thread's positions.
        workgroupBarrier();
        memory[lane * 8u + eight * 2u] = vec4f({{most_low}});
        memory[lane * 8u + eight * 2u + 1u] = vec4f({{most_high}});
        workgroupBarrier();
        if thread < THREADS / 2u {
            let low = max(memory[thread], memory[thread + THREADS / 2u]);
            memory[thread] = max(low, max(memory[thread + THREADS], memory[thread + THREADS / 2u * 3u]));
        }
        workgroupBarrier();
        let before0 = most0;
        let before1 = most1;
        for (var i = 0u; i < PARTS; i++) {
            most0 = max(most0, memory[i * 8u + eight * 2u]);
            most1 = max(most1, memory[i * 8u + eight * 2u + 1u]);
        }
        let fade0 = exp(before0 - most0);
        let fade1 = exp(before1 - most1);
        {{weigh}}
        total0 = total0 * fade0 + vec4f({{total_low}});
        total1 = total1 * fade1 + vec4f({{total_high}});
        {{fade}}

        // Values, as far as a row may see them.
        let pieces = (min(THREADS, end - block) + 31u) / 32u * (32u / VALUES);
        var start = 0u;
        {{load_values}}
        for (var piece = 0u; piece < pieces; piece++) {
            workgroupBarrier();
            if start % 32u == 0u && lane / 8u == start / 32u {
                {{keep_weights}}
            }
            {{keep_values}}
            workgroupBarrier();
            let weights = start % 32u;
            start += VALUES;
            if piece + 1u < pieces {
                {{load_values}}
            }
            for (var i = slice; i < VALUES; i += SLICES) {
                let w0 = memory[(weights + i) * 9u + eight * 2u];
                let w1 = memory[(weights + i) * 9u + eight * 2u + 1u];
                {{add}}
            }
        }
    }

    // Totals of all lanes, then sums of all slices.
    workgroupBarrier();
    memory[lane * 8u + eight * 2u] = total0;
    memory[lane * 8u + eight * 2u + 1u] = total1;
    workgroupBarrier();
    if thread < THREADS / 2u {
        let low = memory[thread] + memory[thread + THREADS / 2u];
        memory[thread] = low + memory[thread + THREADS] + memory[thread + THREADS / 2u * 3u];
    }
    workgroupBarrier();
    var all0 = vec4f();
    var all1 = vec4f();
    for (var i = 0u; i < PARTS; i++) {
        all0 += memory[i * 8u + eight * 2u];
        all1 += memory[i * 8u + eight * 2u + 1u];
    }
    for (var other = 1u; other < SLICES; other++) {
        workgroupBarrier();
        if slice == other {
            {{share_sums}}
        }
        workgroupBarrier();
        if slice == 0u {
            {{join_sums}}
        }
    }
    if slice != 0u { return; }
    {{keep}}
    {{store}}
}
