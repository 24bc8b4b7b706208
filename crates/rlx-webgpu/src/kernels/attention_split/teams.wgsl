// attention   of one row, undivided: acc[k S + j, h] = sum exp(s - m) V[p], stats = m, sum exp(s - m) over
//   split     the positions p of split j, with scores s and their maximum m, as attention's{{what}}
// shapes      q f32[1, H*E]    K, V {{kv}}[kv heads, C, E]    acc f32[kv heads S, G*E]    stats f32[.., 2 G]
// bytes       the split's rows of K and V once for all {{group}} heads of the group
// launch      a workgroup of {{threads}} threads is a split of a key and value head; a team of {{lanes}} lanes has
//             {{unroll}} positions at a time, a lane {{piece}} of their keys and values
// numerics    f32; a team's running maximum, then the split's; tanh by exp, within 3e-7
{{enable}}
{{step}}{{bindings}}
const E = {{e}}u;
const GROUP = {{group}}u;
const THREADS = {{threads}}u;
const QUADS = {{quads}}u;    // of a row of the cache: lanes of a team
const TEAMS = THREADS / QUADS;
const FOURS = E / 4u;
const BLOCK = {{block}}u;    // positions of a split are a multiple of it
const SUBGROUP = {{subgroup}}u;
const SUBGROUPS = THREADS / SUBGROUP;
const HEADS = {{heads}}u;    // whose sums are in the workgroup's memory at a time

var<workgroup> control: vec3u;
var<workgroup> query: array<vec4f, GROUP * FOURS>;
var<workgroup> tops: array<f32, GROUP * SUBGROUPS>;
var<workgroup> totals: array<f32, GROUP * SUBGROUPS>;
var<workgroup> sums: array<vec4f, SUBGROUPS * HEADS * FOURS>;

{{common}}
{{capped}}
{{readers}}{{turn}}
// The largest score of a head.
fn top_of(g: u32) -> f32 {
    var top = -3.0e38;
    for (var i = 0u; i < SUBGROUPS; i++) { top = max(top, tops[g * SUBGROUPS + i]); }
    return top;
}

@compute @workgroup_size({{threads}})
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
{{start}}    let lane = thread % QUADS;
    let team = thread / QUADS;
    {{queries}}
    {{state}}

    for (var first = start; first < end; first += TEAMS * {{unroll}}u) {
        {{loads}}
        {{scores}}
        {{weigh}}
        {{add}}
    }

    // The teams of a subgroup, then the subgroups.
    let subgroup = thread / SUBGROUP;
    {{share_tops}}
    workgroupBarrier();
    {{fade}}
    {{share_sums}}
    {{finish}}
    if thread < GROUP {
        var total = 0.0;
        for (var i = 0u; i < SUBGROUPS; i++) { total += totals[thread * SUBGROUPS + i]; }
        let at = step.stats + (row * GROUP + thread) * 2u;
        {{out}}[at] = bitcast<u32>(top_of(thread));
        {{out}}[at + 1u] = bitcast<u32>(total);
    }
}
