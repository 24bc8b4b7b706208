// attention   y[h] = sum_j exp(m_j - M) acc_j[h] / sum_j exp(m_j - M) sum_j, M the largest m_j, over the
//   join      splits j of the head's key and value head
// shapes      acc f32[kv heads {{splits}}, G*{{e}}]    stats f32[kv heads {{splits}}, 2 G]    y f32[1, H*{{e}}]
// bytes       acc and stats once
// launch      a workgroup of 256 threads is a head: {{slices}} of them share an element, each every
//             {{slices}}th split
// numerics    f32; a split whose maximum is minus infinity weighs nothing
struct Step { heads: u32, group: u32, acc: u32, stats: u32, y: u32 }
{{bindings}}
const E = {{e}}u;
const SPLITS = {{splits}}u;
const WIDTH = {{width}}u;    // elements at a time
const SLICES = {{slices}}u;
const NONE = 0xff800000u;

var<workgroup> maxima: array<u32, SPLITS>;
var<workgroup> totals: array<f32, SPLITS>;
var<workgroup> weights: array<f32, SPLITS>;
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
    for (var j = thread; j < SPLITS; j += 256u) {
        let at = step.stats + ((first + j) * step.group + g) * 2u;
        maxima[j] = {{stats}}[at];
        totals[j] = bitcast<f32>({{stats}}[at + 1u]);
    }
    workgroupBarrier();
    var most = -3.0e38;
    for (var j = 0u; j < SPLITS; j++) {
        if maxima[j] != NONE { most = max(most, bitcast<f32>(maxima[j])); }
    }
    for (var j = thread; j < SPLITS; j += 256u) {
        var weight = 0.0;
        if maxima[j] != NONE { weight = exp(bitcast<f32>(maxima[j]) - most); }
        weights[j] = weight;
    }
    workgroupBarrier();
    var total = 0.0;
    for (var j = 0u; j < SPLITS; j++) { total += weights[j] * totals[j]; }
    let slice = thread / WIDTH;
    for (var base = 0u; base < E; base += WIDTH) {
        let d = base + thread % WIDTH;
        var sum = 0.0;
        if slice < SLICES && d < E {
            for (var j = slice; j < SPLITS; j += SLICES) {
                sum += weights[j] * bitcast<f32>({{acc}}[step.acc + ((first + j) * step.group + g) * E + d]);
            }
        }
        sums[thread] = sum;
        workgroupBarrier();
        if thread < WIDTH && d < E {
            var y = 0.0;
            for (var i = 0u; i < SLICES; i++) { y += sums[i * WIDTH + thread]; }
            {{y}}[step.y + head * E + d] = bitcast<u32>(y / total);
        }
        workgroupBarrier();
    }
}
