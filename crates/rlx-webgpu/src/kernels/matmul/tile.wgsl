// matmul      y_s[m, n] = f(sum_k x[m, k] W_s[n, k] + b_s[n]) (+ residual[m, n]); with a norm rows of
//             x are x * w / sqrt(mean(x^2) + eps); with glu y[m, n] = f(y_0[m, n]) * y_1[m, n]
// shapes      x f32[m, k] or int8 blocks    W_s [rows_s, k], any format    y_s f32[m, rows_s]
// bytes       weights once for 32 rows of x, x once for 64 rows of a weight; 8 kB + 4 kB a chunk
// launch      a workgroup of 64 threads makes 32 x 64 results (glu: 32 x 32 of both weights), a
//             thread 4 x 8 of them; tiles whose rows are all at or past ctl.len are not made
// numerics    f32, k in order; int8 activations are decoded
{{step}}
{{bindings}}
{{common}}
{{readers}}
{{activations}}
{{finish}}
// A row is 8 vectors; a ninth keeps rows in different banks.
var<workgroup> xs: array<vec4f, 288>;
var<workgroup> ws: array<vec4f, 576>;
{{norm_arrays}}

fn products(x: vec4f, w0: vec4f, w1: vec4f, w2: vec4f, w3: vec4f) -> vec4f {
    return vec4f(dot(x, w0), dot(x, w1), dot(x, w2), dot(x, w3));
}

fn decode(s: u32, row: u32, chunk: u32) -> Weights {
    let at = step.seg[s].weight + min(row, step.seg[s].rows - 1u) * step.seg[s].row_bytes;
    {{decode}}
}

{{store}}

@compute @workgroup_size(64)
fn matmul_tile(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    let m0 = (group / step.groups) * 32u;
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
    var low0 = vec4f(); var low1 = vec4f(); var low2 = vec4f(); var low3 = vec4f();
    var high0 = vec4f(); var high1 = vec4f(); var high2 = vec4f(); var high3 = vec4f();
    var squares = vec4f();

    for (var c = 0u; c < step.chunks; c++) {
        {{load_w}}
        let at = thread * 9u;
        ws[at] = w[0]; ws[at + 1u] = w[1]; ws[at + 2u] = w[2]; ws[at + 3u] = w[3];
        ws[at + 4u] = w[4]; ws[at + 5u] = w[5]; ws[at + 6u] = w[6]; ws[at + 7u] = w[7];
        let e = c * 32u + tn * 4u;
        let scale = norm_at(e);
        let r0 = quad_x(min(m0 + tm, step.m - 1u), e);
        let r1 = quad_x(min(m0 + tm + 8u, step.m - 1u), e);
        let r2 = quad_x(min(m0 + tm + 16u, step.m - 1u), e);
        let r3 = quad_x(min(m0 + tm + 24u, step.m - 1u), e);
        squares += vec4f(dot(r0, r0), dot(r1, r1), dot(r2, r2), dot(r3, r3));
        xs[tm * 9u + tn] = r0 * scale;
        xs[(tm + 8u) * 9u + tn] = r1 * scale;
        xs[(tm + 16u) * 9u + tn] = r2 * scale;
        xs[(tm + 24u) * 9u + tn] = r3 * scale;
        workgroupBarrier();
        for (var q = 0u; q < 8u; q++) {
            let x0 = xs[tm * 9u + q];
            let x1 = xs[(tm + 8u) * 9u + q];
            let x2 = xs[(tm + 16u) * 9u + q];
            let x3 = xs[(tm + 24u) * 9u + q];
            let w0 = ws[tn * 9u + q];
            let w1 = ws[(tn + 8u) * 9u + q];
            let w2 = ws[(tn + 16u) * 9u + q];
            let w3 = ws[(tn + 24u) * 9u + q];
            low0 += products(x0, w0, w1, w2, w3);
            low1 += products(x1, w0, w1, w2, w3);
            low2 += products(x2, w0, w1, w2, w3);
            low3 += products(x3, w0, w1, w2, w3);
            let w4 = ws[(tn + 32u) * 9u + q];
            let w5 = ws[(tn + 40u) * 9u + q];
            let w6 = ws[(tn + 48u) * 9u + q];
            let w7 = ws[(tn + 56u) * 9u + q];
            high0 += products(x0, w4, w5, w6, w7);
            high1 += products(x1, w4, w5, w6, w7);
            high2 += products(x2, w4, w5, w6, w7);
            high3 += products(x3, w4, w5, w6, w7);
        }
        workgroupBarrier();
    }
    {{scale}}
    store(s, m0 + tm, n0 + tn, low0, high0);
    store(s, m0 + tm + 8u, n0 + tn, low1, high1);
    store(s, m0 + tm + 16u, n0 + tn, low2, high2);
    store(s, m0 + tm + 24u, n0 + tn, low3, high3);
}
