// {{name}} y = (x - mean) / sqrt(variance + eps) * scale{{shift_formula}}, of each run
// shapes      x, y f32[runs, n]    {{shapes}}
// bytes       16*runs*n: x three times, y once; scale and bias again for each run
// launch      a workgroup of {{threads}} threads is a run, a thread strides it
// numerics    f32; the variance is of differences from the mean; {{threads}} partial sums, then a tree
struct Step {
    n: u32, runs: u32, x: u32, y: u32, scale: u32, bias: u32, eps: f32,
    groups: u32, channels: u32, places: u32,  // of group_norm: of one batch, of a group, of a channel
}
{{bindings}}
var<workgroup> parts: array<f32, {{threads}}>;
fn total(part: f32, thread: u32) -> f32 {
    parts[thread] = part;
    workgroupBarrier();
    for (var half = {{threads}}u / 2u; half > 0u; half /= 2u) {
        if thread < half { parts[thread] += parts[thread + half]; }
        workgroupBarrier();
    }
    let sum = parts[0];
    workgroupBarrier();
    return sum;
}
@compute @workgroup_size({{threads}})
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let run = id.y * launched.x + id.x;
    if run >= step.runs { return; }
    let first = run * step.n;
    var sum = 0.0;
    for (var e = thread; e < step.n; e += {{threads}}u) {
        sum += bitcast<f32>({{x}}[step.x + first + e]);
    }
    let mean = total(sum, thread) / f32(step.n);
    var squares = 0.0;
    for (var e = thread; e < step.n; e += {{threads}}u) {
        let d = bitcast<f32>({{x}}[step.x + first + e]) - mean;
        squares += d * d;
    }
    let inverse = inverseSqrt(total(squares, thread) / f32(step.n) + step.eps);
    for (var e = thread; e < step.n; e += {{threads}}u) {
        let c = {{channel}};
        let v = (bitcast<f32>({{x}}[step.x + first + e]) - mean) * inverse;
        {{y}}[step.y + first + e] = bitcast<u32>(v * bitcast<f32>({{scale}}[step.scale + c]){{shift}});
    }
}
