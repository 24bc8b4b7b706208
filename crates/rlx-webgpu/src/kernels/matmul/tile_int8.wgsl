// matmul      y_s[m, n] = f(sum_k x[m, k] W_s[n, k] + b_s[n]) (+ residual[m, n]), x in blocks of integers;
//             with glu y[m, n] = f(y_0[m, n]) * y_1[m, n]
// shapes      x blocks of int8 or int16 [m, k]    W_s [rows_s, k], packed    y_s f32[m, rows_s]
// bytes       weights once for 64 rows of x, x once for 64 rows of a weight; 4 kB + 4 kB for 64 of k of int8,
//             4 kB + 2 kB for 32 of k of int16
// launch      a workgroup of 128 threads makes 64 x 64 results (glu: 64 x 32 of both weights), a
//             thread 4 x 8 of them; tiles whose rows are all at or past ctl.len are not made
// numerics    integers within 32 elements (16 where a scale has as many), f32 beyond, k in order
{{step}}
{{bindings}}
{{common}}
{{readers}}
{{activations}}
{{finish}}
// Chunks that are multiplied at a time, and vectors of a row of x and of a weight: one more than a row has
// keeps rows in different banks.
const CHUNKS = {{chunks}}u;
const X_ROW = 5u;
const W_ROW = {{w_row}}u;
var<workgroup> xs: array<vec4u, 64u * X_ROW>;
var<workgroup> ws: array<vec4u, 64u * W_ROW>;
// By chunk and row.
var<workgroup> x_scales: array<{{x_type}}, 64u * CHUNKS>;
var<workgroup> w_scales: array<{{w_type}}, 64u * CHUNKS>;
{{scales}}{{rows_len}}

// Four rows of weights, 8 apart.
struct Columns {
    l0: vec4u, h0: vec4u, l1: vec4u, h1: vec4u, l2: vec4u, h2: vec4u, l3: vec4u, h3: vec4u,
    {{fields}}
}
fn columns(row: u32, h: u32) -> Columns {
    let at = row * W_ROW + h * 2u;
    let s = h * 64u + row;
    let a = w_scales[s];
    let b = w_scales[s + 8u];
    let c = w_scales[s + 16u];
    let d = w_scales[s + 24u];
    let at1 = at + 8u * W_ROW;
    let at2 = at + 16u * W_ROW;
    let at3 = at + 24u * W_ROW;
    return Columns(ws[at], ws[at + 1u], ws[at1], ws[at1 + 1u], ws[at2], ws[at2 + 1u], ws[at3], ws[at3 + 1u],
        {{columns_of}});
}

// 32 elements of row `row` of x times those of four weights.
fn products(row: u32, h: u32, w: Columns) -> vec4f {
    let low = xs[row * X_ROW + h * 2u];
    let high = xs[row * X_ROW + h * 2u + 1u];
    {{parts}}let s = x_scales[h * 64u + row];
    {{products}}
}

fn unpack(s: u32, row: u32, chunk: u32) -> Quants {
    let at = step.seg[s].weight + min(row, step.seg[s].rows - 1u) * step.seg[s].row_bytes;
    {{unpack}}
}

{{store}}

@compute @workgroup_size(128)
fn matmul_tile_int8(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    let m0 = (group / step.groups) * 64u;
    if m0 >= step.m { return; }
    {{skip}}
    let column = group % step.groups;
    var s = 0u;
    for (var i = 1u; i < step.segments; i++) {
        if column >= step.seg[i].first { s = i; }
    }
    let n0 = (column - step.seg[s].first) * {{columns}}u;
    let tm = thread / 8u;
    let tn = thread % 8u;
    {{place}}
    var low0 = vec4f(); var low1 = vec4f(); var low2 = vec4f(); var low3 = vec4f();
    var high0 = vec4f(); var high1 = vec4f(); var high2 = vec4f(); var high3 = vec4f();

    for (var c = 0u; c < step.chunks; c += CHUNKS) {
        {{load}}
        workgroupBarrier();
        {{all}}
        workgroupBarrier();
    }
    store(s, m0 + tm, n0 + tn, low0, high0);
    store(s, m0 + tm + 16u, n0 + tn, low1, high1);
    store(s, m0 + tm + 32u, n0 + tn, low2, high2);
    store(s, m0 + tm + 48u, n0 + tn, low3, high3);
}
