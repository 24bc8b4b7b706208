// attention   y[i, h, :] = softmax(cap(scale q[i, h, :] K[g, p-window..=p, :]^T)) V[g, .., :],
//             p = past + i or the end of p's block, g = h / group, cap(s) = softcap tanh(s / softcap); a sink is
//             one more score
// shapes      q, y f32[S, H*E]    K, V {{kv}}[kv heads, C, E]    ctl: past, len are words 0 and 1
// bytes       the cache's rows in the window, once for each query head and row
// launch      a workgroup is a head of a row: {{teams}} teams of 64 threads, a team takes every
//             {{teams}}th 64 positions; a thread scores a position, then sums {{dims}} dimension(s) of V
// numerics    f32; a running maximum per team, teams are joined at the end; tanh by exp, within
//             3e-7; rows at or past len are not written
struct Step {
    heads: u32, rows: u32, group: u32, capacity: u32, q: u32, k: u32, v: u32, y: u32, ctl: u32, scale: f32,
    window: u32, softcap: f32, sinks: u32,
}
{{bindings}}
const E = {{e}}u;
const TEAMS = {{teams}}u;
const DIMS = {{dims}}u;

var<workgroup> control: vec2u;
var<workgroup> query: array<f32, {{e}}>;
var<workgroup> scores: array<f32, {{threads}}>;
var<workgroup> weights: array<f32, {{threads}}>;
var<workgroup> sums: array<f32, {{joined}}>;
var<workgroup> most_of: array<f32, TEAMS>;
var<workgroup> total_of: array<f32, TEAMS>;

{{readers}}
{{capped}}
@compute @workgroup_size({{threads}})
fn attention(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let at = id.y * launched.x + id.x;
    if at >= step.heads * step.rows { return; }
    let row = at / step.heads;
    let head = at % step.heads;
    if thread == 0u { control = vec2u({{ctl}}[step.ctl], {{ctl}}[step.ctl + 1u]); }
    // Loop bounds must be the same for the whole workgroup, and known to be.
    let ctl = workgroupUniformLoad(&control);
    if row >= ctl.y { return; }
    let own = ctl.x + row;
    // Rows of this submission stand behind those of the past.
    let n = {{end}};
    let low = own - min(own, step.window);
    let q = step.q + at * E;
    for (var d = thread; d < E; d += {{threads}}u) {
        query[d] = bitcast<f32>({{q}}[q + d]) * step.scale;
    }
    let team = thread / 64u;
    let lane = thread % 64u;
    let cache = (head / step.group) * step.capacity * E;
    var most = -3.0e38;
    var total = 0.0;
    {{sink}}
    {{acc_vars}}
    workgroupBarrier();

    for (var block = low; block < n; block += {{threads}}u) {
        let first = block + team * 64u;
        let position = first + lane;
        var score = -3.0e38;
        if position < n {
            score = 0.0;
            let k = cache + {{key_row}} * E;
            for (var d = 0u; d < E; d += 2u) {
                let pair = k_pair(k + d);
                score += query[d] * pair.x + query[d + 1u] * pair.y;
            }
            {{cap}}
        }
        scores[thread] = score;
        workgroupBarrier();
        var highest = most;
        for (var j = 0u; j < 64u; j++) { highest = max(highest, scores[team * 64u + j]); }
        let fade = exp(most - highest);
        most = highest;
        weights[thread] = select(0.0, exp(score - highest), position < n);
        workgroupBarrier();
        total *= fade;
        {{acc_fade}}
        let count = min(64u, max(n, first) - first);
        for (var j = 0u; j < count; j++) {
            let p = weights[team * 64u + j];
            let v = cache + {{value_row}} * E + lane;
            total += p;
            {{acc_add}}
        }
    }
    {{finish}}
}
