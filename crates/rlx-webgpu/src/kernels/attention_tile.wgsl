// attention   y[s, h, :] = sum_j softmax_j(scale q[s, h, :] . k[j, :]) v[j, :], several rows; j from
//             past + s - window to past + s, or to the end of its block; a sink is one more score      arXiv:2205.14135
// shapes      q f32[S, H*E]    k, v caches [K, C, E] {{kv}}, heads h of a group share one    y f32[S, H*E]
// bytes       keys and values of what a tile's rows see once, 8 for an element of q and y
// launch      a workgroup of {{threads}} threads has {{queries}} queries, {{tile}} rows of a group, and takes {{block}} positions at a
//             time: keys through its memory, values as they are
// numerics    f32; online softmax; scores of positions that a row does not see are no numbers of its sum
struct Step {
    heads: u32, rows: u32, tiles: u32, capacity: u32, q: u32, k: u32, v: u32, y: u32, ctl: u32,
    scale: f32, window: u32, softcap: f32, sinks: u32,
}
{{bindings}}
const E = {{e}}u;
const GROUP = {{group}}u;      // query heads that share keys and values
const TILE = {{tile}}u;        // rows of a workgroup
const QUERIES = {{queries}}u;
const BLOCK = {{block}}u;      // positions at a time
const THREADS = {{threads}}u;
const QUADS = {{quads}}u;      // of a row of the cache
const PITCH = QUADS + 1u;      // keeps rows in different banks, and has the scales of blocks
const FOURS = E / 4u;
const LANES = BLOCK / 4u;      // threads that score one query, four positions each, LANES apart
const COLUMNS = E / 2u;        // threads that sum values, two elements each
const OWN = {{own}}u;          // queries that a thread scores
const SUMMED = {{summed}}u;    // queries that a thread sums

var<workgroup> control: vec2u;
var<workgroup> query: array<vec4f, QUERIES * FOURS>;
// Keys of a block, and when they are scored, the scores: four positions of one query.
var<workgroup> tile: array<vec4u, {{held}}>;
var<workgroup> parts: array<f32, THREADS>;
var<workgroup> fades: array<f32, QUERIES>;

{{common}}
{{readers}}
{{capped}}
fn scored(score: f32, position: u32, own: u32, end: u32) -> f32 {
    let seen = position < {{block_end}} && position + min(own, step.window) >= own && position < end;
    return select(-3.0e38, score, seen);
}

@compute @workgroup_size({{threads}})
fn attention_tile(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let at = id.y * launched.x + id.x;
    let kv_head = at / step.tiles;
    let row0 = (at % step.tiles) * TILE;
    if kv_head * GROUP >= step.heads { return; }
    if thread == 0u { control = vec2u({{ctl}}[step.ctl], {{ctl}}[step.ctl + 1u]); }
    // Loop bounds must be the same for the whole workgroup, and known to be.
    let ctl = workgroupUniformLoad(&control);
    if row0 >= ctl.y { return; }
    let past = ctl.x;
    let end = {{end}};
    let first = past + row0 - min(past + row0, step.window);
    let cache = kv_head * step.capacity;

    for (var i = thread; i < QUERIES * FOURS; i += THREADS) {
        // Queries past the last are the last again, and not stored.
        let n = min(i / FOURS, TILE * GROUP - 1u);
        let row = min(row0 + n / GROUP, step.rows - 1u);
        let start = step.q + (row * step.heads + kv_head * GROUP + n % GROUP) * E + (i % FOURS) * 4u;
        query[i] = step.scale * bitcast<vec4f>(vec4u({{q}}[start], {{q}}[start + 1u], {{q}}[start + 2u], {{q}}[start + 3u]));
    }
    let lane = thread % LANES;
    let scores_of = thread / LANES * OWN;
    let column = thread % COLUMNS;
    let sums_of = thread / COLUMNS * SUMMED;
    let stats_of = thread / 4u;
    var most = -3.0e38;
    var total = 0.0;
    {{sink}}
    {{sums}}
    for (var block = first; block < end; block += BLOCK) {
        for (var i = thread; i < BLOCK * QUADS; i += THREADS) {
            let at = (cache + {{key_row}}) * QUADS + i % QUADS;
            tile[(i / QUADS) * PITCH + i % QUADS] = {{load_key}};
        }
        {{load_scales}}
        workgroupBarrier();
        {{scores}}
        for (var piece = 0u; piece < QUADS; piece++) {
            {{keys}}
            {{score}}
        }
        {{cap}}
        workgroupBarrier();
        {{keep}}
        workgroupBarrier();

        // Four threads have a query's scores.
        let mine = stats_of * LANES + thread % 4u;
        var highest = most;
        for (var i = 0u; i < LANES; i += 4u) {
            let s = bitcast<vec4f>(tile[mine + i]);
            highest = max(highest, max(max(s.x, s.y), max(s.z, s.w)));
        }
        parts[thread] = highest;
        workgroupBarrier();
        for (var i = 0u; i < 4u; i++) { highest = max(highest, parts[stats_of * 4u + i]); }
        let fade = exp(most - highest);
        most = highest;
        total *= fade;
        for (var i = 0u; i < LANES; i += 4u) {
            let s = bitcast<vec4f>(tile[mine + i]);
            let w = select(vec4f(0.0), exp(s - vec4f(highest)), s > vec4f(-2.9e38));
            total += w.x + w.y + w.z + w.w;
            tile[mine + i] = bitcast<vec4u>(w);
        }
        if thread % 4u == 0u { fades[stats_of] = fade; }
        workgroupBarrier();

        {{fade}}
        for (var i = 0u; i < LANES; i++) {
            {{values}}
            {{add}}
        }
        workgroupBarrier();
    }
    parts[thread] = total;
    workgroupBarrier();
    {{store}}
}
