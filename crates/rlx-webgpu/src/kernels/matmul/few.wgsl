// matmul      y_s[m, n] = f(sum_k x[m, k] W_s[n, k] + b_s[n]) (+ residual[m, n]), x in int8 blocks; with
//             glu y[m, n] = f(y_0[m, n]) * y_1[m, n]
// shapes      x int8 blocks [m, k]    W_s [rows_s, k], packed    y_s f32[m, rows_s]
// bytes       weights once for 8 rows of x, x once for 8 rows of a weight
// launch      a workgroup of 2 teams of 32 lanes makes 8 rows of x by 8 of a weight (glu: 4 of both); a lane
//             strides the row's chunks; groups whose rows are all at or past ctl.len are not made
// numerics    integers within 16 elements, f32 beyond: a lane's chunks in order, then lane by lane
{{step}}
{{bindings}}
{{common}}
{{readers}}
{{activations}}
{{finish}}
// By result and thread; a row of 65 keeps results in different banks.
var<workgroup> sums: array<f32, 2080>;
{{rows_len}}

fn product(w: Quants, x: X) -> f32 {
    return {{product}};
}

fn unpack(s: u32, row: u32, chunk: u32) -> Quants {
    let at = step.seg[s].weight + min(row, step.seg[s].rows - 1u) * step.seg[s].row_bytes;
    {{unpack}}
}

fn total(result: u32, team: u32) -> f32 {
    let first = result * 65u + team * 32u;
    var y = 0.0;
    for (var lane = 0u; lane < 32u; lane++) { y += sums[first + lane]; }
    return y;
}

@compute @workgroup_size(64)
fn matmul_few(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    let m0 = (group / step.groups) * 8u;
    if m0 >= step.m { return; }
    {{skip}}
    let column = group % step.groups;
    var s = 0u;
    for (var i = 1u; i < step.segments; i++) {
        if column >= step.seg[i].first { s = i; }
    }
    let n0 = (column - step.seg[s].first) * {{columns}}u + thread / 32u * {{rows}}u;
    {{declare}}
    for (var c = thread % 32u; c < step.chunks; c += 32u) {
        {{products}}
    }
    {{keep}}
    workgroupBarrier();
    {{store}}
}
