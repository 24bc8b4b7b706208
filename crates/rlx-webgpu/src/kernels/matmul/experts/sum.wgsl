// grouped_matmul  y[m, n] = sum_j shares[m, j] (sum_k x[m, j, k] W[e, n, k] + b[e, n]) (+ residual[m, n])
//             with e = ids[m, j]
// shapes      x f32[m, k] or [m, j, k], or int8 blocks    W [e, rows, k], any format    y f32[m, rows]
// bytes       every byte of the matrix of each expert of each row once, x once a workgroup (the caches'), 4 a
//             result; matrices of no other expert; 2 rows k operations for each row and each of its experts
// launch      a workgroup has {{rows}} rows of the result of one m; each of its {{teams}} teams of {{lanes}} lanes has an
//             expert, or every {{teams}}th, a lane strides the chunks of 32 of the matrix's rows
// numerics    f32; {{lanes}} partial sums a row and team, added in order, then the teams
{{step}}
{{bindings}}
const LANES = {{lanes}}u;
const TEAMS = {{teams}}u;
const ROWS = {{rows}}u;
const SUMS = 4u; // that a thread keeps, of which ROWS are used

// Where the row of x starts that is being multiplied; of int8 blocks its number.
var<private> x_row: u32;

{{common}}
{{readers}}
{{activations}}
{{finish}}
var<workgroup> partial: array<f32, {{partials}}>;
var<workgroup> of_team: array<f32, TEAMS * ROWS>;
{{rows_len}}

fn expert_of(pair: u32) -> u32 { return min({{ids}}[step.ids + pair], step.experts - 1u); }
fn share_of(pair: u32) -> f32 { return bitcast<f32>({{shares}}[step.shares + pair]); }

@compute @workgroup_size({{threads}})
fn grouped_matmul(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    let m = group / step.groups;
    if m >= step.m { return; }
    {{skip}}
    let row0 = group % step.groups * ROWS;
    let last = step.seg[0].rows - 1u;
    let lane = thread % LANES;
    var sums = vec4f();
    for (var j = thread / LANES; j < step.top_k; j += TEAMS) {
        let pair = m * step.top_k + j;
        let matrix = expert_of(pair) * step.seg[0].rows;
        let share = share_of(pair);
        x_row = {{start_of_x}};
        for (var c = lane; c < step.chunks; c += LANES) {
            let x = load_x(c);
            for (var r = 0u; r < ROWS; r++) {
                let one = select(vec4f(0.0), vec4f(share), vec4u(0u, 1u, 2u, 3u) == vec4u(r));
                let row = matrix + min(row0 + r, last);
                sums += one * dot_{{reader}}(step.seg[0].weight + row * step.seg[0].row_bytes, c, x);
            }
        }
    }
    partial[thread * SUMS] = sums.x;
    partial[thread * SUMS + 1u] = sums.y;
    partial[thread * SUMS + 2u] = sums.z;
    partial[thread * SUMS + 3u] = sums.w;
    workgroupBarrier();
    if thread < TEAMS * ROWS {
        let start = thread / ROWS * LANES;
        var sum = 0.0;
        for (var l = 0u; l < LANES; l++) { sum += partial[(start + l) * SUMS + thread % ROWS]; }
        of_team[thread] = sum;
    }
    workgroupBarrier();
    let row = row0 + thread;
    if thread < ROWS && row <= last {
        var y = 0.0;
        for (var t = 0u; t < TEAMS; t++) { y += of_team[t * ROWS + thread]; }
        {{bias}}
        let at = m * step.seg[0].rows + row;
        {{y}}[step.seg[0].y + at] = bitcast<u32>(y + residual_at(at));
    }
}
