// grouped_matmul  y_s[m, j, n] = sum_k x[m, k] W_s[e, n, k] + b_s[e, n] with e = ids[m, j]; with glu
//             y[m, j, n] = f(y_0) * y_1
// shapes      x f32[m, k] or [m, j, k], or int8 blocks    W_s [e, rows_s, k], any format    y_s f32[m, j, rows_s]
// bytes       every byte of the matrix of each expert of each row once, x once a workgroup (the caches'), 4 a
//             result; matrices of no other expert; 2 rows_s k operations for each row and each of its experts
// launch      a workgroup is {{teams}} teams of {{lanes}} lanes and has one expert of a row; a team
//             owns {{rows}} rows of a matrix, a lane strides their chunks of 32
// numerics    f32; {{lanes}} partial sums a row, added in order
{{step}}
{{bindings}}
const LANES = {{lanes}}u;
const TEAMS = {{teams}}u;
const ROWS = {{rows}}u;
const SUMS = {{sums}}u;

// Where the row of x starts that is being multiplied; of int8 blocks its number.
var<private> x_row: u32;

{{common}}
{{readers}}
{{activations}}
{{finish}}
var<workgroup> partial: array<f32, {{partials}}>;
{{rows_len}}

fn store(at: u32, sums: vec4f) {
    partial[at] = sums.x;
    partial[at + 1u] = sums.y;
    partial[at + 2u] = sums.z;
    partial[at + 3u] = sums.w;
}

fn expert_of(pair: u32) -> u32 { return min({{ids}}[step.ids + pair], step.experts - 1u); }

@compute @workgroup_size({{threads}})
fn grouped_matmul(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    // A row of the result, of which there is one for each pair of a row and an expert.
    let result = group / step.groups;
    let m = result / step.top_k;
    if m >= step.m { return; }
    {{skip}}
    let column = group % step.groups;
    var s = 0u;
    for (var i = 1u; i < step.segments; i++) {
        if column >= step.seg[i].first { s = i; }
    }
    let lane = thread % LANES;
    let row0 = (column - step.seg[s].first) * (TEAMS * ROWS) + (thread / LANES) * ROWS;
    let last = step.seg[s].rows - 1u;
    let matrix = expert_of(result) * step.seg[s].rows;
    x_row = {{start_of_x}};
    var sums = vec4f();
    {{ups}}
    {{body}}
    store(thread * SUMS, sums);
    {{store_ups}}
    workgroupBarrier();

    let row = (column - step.seg[s].first) * (TEAMS * ROWS) + thread;
    if thread < TEAMS * ROWS && row <= last {
        let start = (thread / ROWS) * LANES;
        let r = thread % ROWS;
        var y = 0.0;
        {{second}}
        for (var l = 0u; l < LANES; l++) {
            y += partial[(start + l) * SUMS + r];
            {{add_second}}
        }
        let at = result * step.seg[s].rows + row;
        {{result}}
    }
}
