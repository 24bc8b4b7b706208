// rms_norm    y[r, c] = x[r, c] * w[c] / sqrt(mean(x[r, :]^2) + eps){{formula}}      arXiv:1910.07467
// shapes      x, y f32[rows, k]    w f32[k]
// bytes       at least 8*rows*k + 4*k; issued 16*rows*k (x twice, w per row)
// launch      a workgroup of {{threads}} threads is a row, a thread strides its columns
// numerics    f32; {{threads}} partial sums, then a tree
struct Step { k: u32, rows: u32, x: u32, w: u32, y: u32, eps: f32, second: u32, pad0: u32 }
{{bindings}}
var<workgroup> sums: array<f32, {{threads}}>;
{{rows_len}}{{functions}}
@compute @workgroup_size({{threads}})
fn rms_norm(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = id.y * launched.x + id.x;
    if row >= step.rows { return; }
    {{skip}}
    let x = step.x + row * step.k;
    let y = step.y + row * step.k;
    var sum = 0.0;
    for (var c = thread; c < step.k; c += {{threads}}u) {
        let v = bitcast<f32>({{x}}[x + c]);
        sum += v * v;
    }
    sums[thread] = sum;
    workgroupBarrier();
    for (var n = {{half}}u; n > 0u; n /= 2u) {
        if thread < n { sums[thread] += sums[thread + n]; }
        workgroupBarrier();
    }
    let scale = inverseSqrt(sums[0] / f32(step.k) + step.eps);
    for (var c = thread; c < step.k; c += {{threads}}u) {
        let v = bitcast<f32>({{x}}[x + c]) * scale * bitcast<f32>({{w}}[step.w + c]){{joined}};
        {{y}}[y + c] = bitcast<u32>(v);
    }
}
