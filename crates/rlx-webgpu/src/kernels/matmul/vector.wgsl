// matmul      y_s[n] = f(sum_k x[k] W_s[n, k] + b_s[n]) (+ residual[n]), one row of x; with a norm
//             x is x * w / sqrt(mean(x^2) + eps); with glu y[n] = f(y_0[n]) * y_1[n]
// shapes      x f32[1, k] or int8 blocks    W_s [rows_s, k], any format    y_s f32[1, rows_s]
// bytes       every weight byte once, x once a workgroup (start cache), 4 a result
// launch      a workgroup is {{teams}} teams of {{lanes}} lanes; a team owns {{rows}} rows of one segment, a lane
//             strides their chunks of 32; rows past the end repeat the last one and are not stored
// numerics    f32; {{lanes}} partial sums a row, added in order; int8: integers within a chunk
{{step}}
{{bindings}}
const LANES = {{lanes}}u;
const TEAMS = {{teams}}u;
const ROWS = {{rows}}u;
const SUMS = {{sums}}u;

{{common}}
{{readers}}
{{activations}}
{{finish}}
var<workgroup> partial: array<f32, {{partials}}>;
{{squares_array}}

fn store(at: u32, sums: vec4f) {
    partial[at] = sums.x;
    partial[at + 1u] = sums.y;
    partial[at + 2u] = sums.z;
    partial[at + 3u] = sums.w;
}

@compute @workgroup_size({{threads}})
fn matmul_vector(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    if group >= step.groups { return; }
    var s = 0u;
    for (var i = 1u; i < step.segments; i++) {
        if group >= step.seg[i].first { s = i; }
    }
    let lane = thread % LANES;
    let row0 = (group - step.seg[s].first) * (TEAMS * ROWS) + (thread / LANES) * ROWS;
    let last = step.seg[s].rows - 1u;
    var sums = vec4f();
    {{ups}}
    var squares = 0.0;
    {{body}}
    store(thread * SUMS, sums);
    {{store_ups}}
    {{store_squares}}
    workgroupBarrier();

    let row = (group - step.seg[s].first) * (TEAMS * ROWS) + thread;
    if thread < TEAMS * ROWS && row <= last {
        let start = (thread / ROWS) * LANES;
        let r = thread % ROWS;
        var y = 0.0;
        {{second}}
        for (var l = 0u; l < LANES; l++) {
            y += partial[(start + l) * SUMS + r];
            {{add_second}}
        }
        {{scale}}
        {{result}}
    }
}
