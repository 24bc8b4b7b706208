// softmax     y[j] = exp(x[j] - max) / sum of exp(x - max), along an axis
// shapes      x, y f32[outer, n, inner], the axis in the middle
// bytes       16*outer*n*inner: x three times, y once
// launch      a workgroup of {{threads}} threads is a run of the axis, a thread strides it
// numerics    f32; {{threads}} partial sums, then a tree; a run of -inf alone is NaN
struct Step { n: u32, inner: u32, runs: u32, x: u32, y: u32 }
{{bindings}}
var<workgroup> parts: array<f32, {{threads}}>;
@compute @workgroup_size({{threads}})
fn softmax(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let run = id.y * launched.x + id.x;
    if run >= step.runs { return; }
    let first = run / step.inner * step.n * step.inner + run % step.inner;
    var most = -3.4028234e38;
    for (var j = thread; j < step.n; j += {{threads}}u) {
        most = max(most, bitcast<f32>({{x}}[step.x + first + j * step.inner]));
    }
    parts[thread] = most;
    workgroupBarrier();
    for (var half = {{threads}}u / 2u; half > 0u; half /= 2u) {
        if thread < half { parts[thread] = max(parts[thread], parts[thread + half]); }
        workgroupBarrier();
    }
    most = parts[0];
    workgroupBarrier();
    var sum = 0.0;
    for (var j = thread; j < step.n; j += {{threads}}u) {
        sum += exp(bitcast<f32>({{x}}[step.x + first + j * step.inner]) - most);
    }
    parts[thread] = sum;
    workgroupBarrier();
    for (var half = {{threads}}u / 2u; half > 0u; half /= 2u) {
        if thread < half { parts[thread] += parts[thread + half]; }
        workgroupBarrier();
    }
    sum = parts[0];
    for (var j = thread; j < step.n; j += {{threads}}u) {
        let at = first + j * step.inner;
        {{y}}[step.y + at] = bitcast<u32>(exp(bitcast<f32>({{x}}[step.x + at]) - most) / sum);
    }
}
