// attention   y[h] = sum_j exp(m_j - M) acc_j[h] / sum_j exp(m_j - M) sum_j, M the largest m_j, over the
//   join      splits j of the head's key and value head
// shapes      acc f32[kv heads S, G*E]    stats f32[kv heads S, 2 G]    y f32[1, H*E]
// bytes       acc and stats once
// launch      a workgroup of 64 threads is a head, a thread every 64th element
// numerics    f32; a split whose maximum is minus infinity weighs nothing
struct Step { heads: u32, group: u32, splits: u32, e: u32, acc: u32, stats: u32, y: u32 }
{{bindings}}
const NONE = 0xff800000u;

@compute @workgroup_size(64)
fn attention_join(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let head = id.y * launched.x + id.x;
    if head >= step.heads { return; }
    let first = head / step.group * step.splits;
    let g = head % step.group;
    let stats = step.stats + (first * step.group + g) * 2u;
    let acc = step.acc + (first * step.group + g) * step.e;
    var most = -3.0e38;
    for (var j = 0u; j < step.splits; j++) {
        let m = {{stats}}[stats + j * step.group * 2u];
        if m != NONE { most = max(most, bitcast<f32>(m)); }
    }
    var total = 0.0;
    for (var j = 0u; j < step.splits; j++) {
        let at = stats + j * step.group * 2u;
        if {{stats}}[at] != NONE { total += exp(bitcast<f32>({{stats}}[at]) - most) * bitcast<f32>({{stats}}[at + 1u]); }
    }
    for (var d = thread; d < step.e; d += 64u) {
        var y = 0.0;
        for (var j = 0u; j < step.splits; j++) {
            let m = {{stats}}[stats + j * step.group * 2u];
            if m != NONE { y += exp(bitcast<f32>(m) - most) * bitcast<f32>({{acc}}[acc + j * step.group * step.e + d]); }
        }
        {{y}}[step.y + head * step.e + d] = bitcast<u32>(y / total);
    }
}
