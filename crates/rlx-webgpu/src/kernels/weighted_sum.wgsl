// weighted_sum  y[m, n] = sum_j shares[m, j] x[m, j, n]
// shapes      x f32[m, j, n]   shares f32[m, j]   y f32[m, n]
// bytes       4 an element of x, 4 a result; shares from cache; 2 operations an element of x
// launch      a thread a result; those of rows at or past ctl.len are not made
// numerics    f32, j in order
struct Step { rows: u32, top_k: u32, n: u32, x: u32, shares: u32, y: u32, pad0: u32, pad1: u32 }
{{bindings}}

@compute @workgroup_size(64)
fn weighted_sum(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let at = (id.y * launched.x + id.x) * 64u + thread;
    let row = at / step.n;
    if row >= {{rows}} { return; }
    let n = at % step.n;
    var sum = 0.0;
    for (var j = 0u; j < step.top_k; j++) {
        let pair = row * step.top_k + j;
        let share = bitcast<f32>({{shares}}[step.shares + pair]);
        sum += share * bitcast<f32>({{x}}[step.x + pair * step.n + n]);
    }
    {{y}}[step.y + at] = bitcast<u32>(sum);
}
