// attention   y[h] = sum_j exp(m_j - M) acc_j[h] / sum_j exp(m_j - M) sum_j, M the largest m_j, over the
//   join      splits j of the head's key and value head; a sink is a split with the sum 1 and no acc
// shapes      acc f32[kv heads {{splits}}, G*{{e}}]    stats f32[kv heads {{splits}}, 2 G]    y f32[1, H*{{e}}]
// bytes       acc and stats once, stats {{width}} times from a cache
// launch      a workgroup of 256 threads is a head: {{slices}} of them share an element, each {{each}} splits side
//             by side, {{loads}} at a time
// numerics    f32; a running maximum; a split whose maximum is minus infinity weighs nothing
struct Step { heads: u32, group: u32, acc: u32, stats: u32, y: u32, sinks: u32 }
{{bindings}}
const E = {{e}}u;
const SPLITS = {{splits}}u;
const WIDTH = {{width}}u;    // elements at a time
const SLICES = {{slices}}u;
const EACH = {{each}}u;      // splits of a slice
const NONE = 0xff800000u;

var<workgroup> tops: array<f32, 256>;
var<workgroup> totals: array<f32, 256>;
var<workgroup> sums: array<f32, 256>;

@compute @workgroup_size(256)
fn attention_join(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let head = id.y * launched.x + id.x;
    if head >= step.heads { return; }
    let first = head / step.group * SPLITS;
    let g = head % step.group;
    let begin = thread / WIDTH * EACH;
    let end = min(begin + EACH, SPLITS);
    for (var base = 0u; base < E; base += WIDTH) {
        let d = base + thread % WIDTH;
        var top = -3.0e38; var total = 0.0; var sum = 0.0;
        {{sink}}
        for (var j = begin; j < end; j += {{loads}}u) {
            {{load}}
            let most = {{most}};
            let fade = exp(top - most);
            {{weigh}}
            total = total * fade{{add_totals}};
            sum = sum * fade{{add_sums}};
            top = most;
        }
        tops[thread] = top;
        totals[thread] = total;
        sums[thread] = sum;
        workgroupBarrier();
        if thread < WIDTH && d < E {
            for (var i = 0u; i < SLICES; i++) { top = max(top, tops[i * WIDTH + thread]); }
            total = 0.0;
            sum = 0.0;
            for (var i = 0u; i < SLICES; i++) {
                let weight = exp(tops[i * WIDTH + thread] - top);
                total += weight * totals[i * WIDTH + thread];
                sum += weight * sums[i * WIDTH + thread];
            }
            {{y}}[step.y + head * E + d] = bitcast<u32>(sum / total);
        }
        workgroupBarrier();
    }
}
