// {{name}} y = (x - mean) / sqrt(variance + eps) * scale{{shift_formula}}, of each run
// shapes      x, y f32[runs, n]    {{shapes}}
// bytes       16*runs*n: x three times, y once; scale and bias again for each run
// launch      a workgroup of {{threads}} threads is a run, a thread strides it with {{loads}} loads of {{number}} in flight
// numerics    f32; the variance is of differences from the mean; {{threads}} partial sums, then a tree
struct Step {
    n: u32, runs: u32, x: u32, y: u32, scale: u32, bias: u32, eps: f32,
    groups: u32, channels: u32, places: u32,  // of group_norm: of one batch, of a group, of a channel
}
{{bindings}}
alias Number = {{number}};
const LANES = {{lanes}}u;
const EACH = {{threads}}u * {{loads}}u;
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
// Number `i` of the run that begins at `first`; `other` where the run has ended, at `count`.
fn x_at(first: u32, i: u32, count: u32, other: Number) -> Number {
    return select(other, bitcast<Number>({{x}}[step.x / LANES + first + min(i, count - 1u)]), i < count);
}
@compute @workgroup_size({{threads}})
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let run = id.y * launched.x + id.x;
    if run >= step.runs { return; }
    let count = step.n / LANES;
    let first = run * count;
    var sum = Number();
    for (var i = thread; i < count; i += EACH) {
        {{add}}
    }
    let mean = total({{sum}}, thread) / f32(step.n);
    var squares = Number();
    for (var i = thread; i < count; i += EACH) {
        {{add_squares}}
    }
    let inverse = inverseSqrt(total({{squares}}, thread) / f32(step.n) + step.eps);
    for (var i = thread; i < count; i += EACH) {
        {{store}}
    }
}
