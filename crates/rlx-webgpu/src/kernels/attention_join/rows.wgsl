// attention   y[s, h] = sum_j exp(m_j - M) acc_j[s, h] / sum_j exp(m_j - M) sum_j, M the largest m_j, over the splits j
//   join      of the tile of row s; a sink is a split with the sum 1 and no acc
// shapes      acc f32[kv heads {{splits}} {{tile}}, G*{{e}}]    stats f32[.., 2 G]    y f32[S, H*{{e}}]
// bytes       acc of the splits that have positions and y once, stats {{e}} times from a cache
// launch      a thread is an element of y; it loads {{loads}} splits at a time
// numerics    f32; a running maximum; a split whose maximum is minus infinity weighs nothing, whatever its acc
struct Step { rows: u32, heads: u32, acc: u32, stats: u32, ctl: u32, y: u32, sinks: u32 }
{{bindings}}
const E = {{e}}u;
const GROUP = {{group}}u;
const TILE = {{tile}}u;           // rows that share splits
const PLACES = {{splits}}u;       // splits of a key and value head for all tiles
const PITCH = TILE * GROUP; // from a head of a split to that of the next
const NONE = 0xff800000u;

@compute @workgroup_size({{threads}})
fn attention_join_rows(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let at = (id.y * launched.x + id.x) * {{threads}}u + thread;
    let d = at % E;
    let head = at / E % step.heads;
    let row = at / E / step.heads;
    let len = min({{ctl}}[step.ctl + 1u], step.rows);
    if row >= len { return; }
    let splits = PLACES / ((len + TILE - 1u) / TILE);
    // Each has {{block}} positions or more, so those behind have none.
    let used = min(splits, ({{ctl}}[step.ctl] + len + {{block}}u - 1u) / {{block}}u);
    let place = (head / GROUP * PLACES + row / TILE * splits) * TILE + row % TILE;
    let first = place * GROUP + head % GROUP;
    var top = -3.0e38; var total = 0.0; var sum = 0.0;
    {{sink}}
    for (var j = 0u; j < used; j += {{loads}}u) {
        {{load}}
        let most = {{most}};
        let fade = exp(top - most);
        {{weigh}}
        total = total * fade{{add_totals}};
        sum = sum * fade{{add_sums}};
        top = most;
    }
    {{y}}[step.y + at] = bitcast<u32>(sum / total);
}
