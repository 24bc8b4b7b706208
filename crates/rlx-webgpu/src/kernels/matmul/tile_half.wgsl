// matmul      y_s[m, n] = f(sum_k x[m, k] W_s[n, k] + b_s[n]) (+ residual[m, n]); with glu
//             y[m, n] = f(y_0[m, n]) * y_1[m, n]
// shapes      x f32[m, k] or blocks of integers    W_s [rows_s, k], any format    y_s f32[m, rows_s]
// bytes       weights once for 64 rows of x, x once for 64 rows of a weight; 4 kB + 4 kB a chunk of 32
// launch      a workgroup of 128 threads makes 64 x 64 results (glu: 64 x 32 of both weights), a
//             thread 4 x 8 of them; tiles whose rows are all at or past ctl.len are not made
// numerics    of 32 elements both factors are scaled to at most 1 and rounded to f16; f16 sums of 8 products,
//             f32 beyond, k in order
enable f16;
{{step}}
{{bindings}}
{{common}}
{{readers}}
{{activations}}
{{finish}}
// A row is 8 vectors; a ninth keeps rows in different banks.
var<workgroup> xs: array<vec4h, 576>;
var<workgroup> ws: array<vec4h, 576>;
// What they were divided by, and of x before: the largest of 4 elements of rows t, t + 16, t + 32 and t + 48.
var<workgroup> x_scales: array<f32, 64>;
var<workgroup> w_scales: array<f32, 64>;
var<workgroup> most: array<vec4f, 128>;
{{rows_len}}

fn largest(v: vec4f) -> f32 {
    let m = max(abs(v.xy), abs(v.zw));
    return max(m.x, m.y);
}
// 0 for what is smaller than any normal number.
fn inverse_of(m: f32) -> f32 { return select(0.0, 1.0 / m, m >= 1.17549435e-38); }

// 32 weights, divided by a scale.
struct Scaled { w: Weights, scale: f32 }
fn packed(q: Quants) -> Scaled {
    let bounds = abs(q.scale) * 128.0 + abs(q.offset);
    let scale = max(bounds.x, bounds.y);
    let inverse = inverse_of(scale);
    return Scaled(weights_of(Quants(q.low, q.high, q.scale * inverse, q.offset * inverse)), scale);
}
fn scalars(w: Weights) -> Scaled {
    var out = Scaled(w, 0.0);
    for (var i = 0u; i < 8u; i++) { out.scale = max(out.scale, largest(out.w[i])); }
    let inverse = inverse_of(out.scale);
    for (var i = 0u; i < 8u; i++) { out.w[i] *= inverse; }
    return out;
}

fn read_w(s: u32, row: u32, chunk: u32) -> Scaled {
    let at = step.seg[s].weight + min(row, step.seg[s].rows - 1u) * step.seg[s].row_bytes;
    {{decode}}
}

fn sum(h: vec4h) -> f32 {
    let two = h.xy + h.zw;
    return f32(two.x) + f32(two.y);
}

{{store}}

@compute @workgroup_size(128)
fn matmul_tile_half(
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
    var low0 = vec4f(); var low1 = vec4f(); var low2 = vec4f(); var low3 = vec4f();
    var high0 = vec4f(); var high1 = vec4f(); var high2 = vec4f(); var high3 = vec4f();

    for (var c = 0u; c < step.chunks; c++) {
        let e = c * 32u + tn * 4u;
        let r0 = quad_x(min(m0 + tm, step.m - 1u), e);
        let r1 = quad_x(min(m0 + tm + 16u, step.m - 1u), e);
        let r2 = quad_x(min(m0 + tm + 32u, step.m - 1u), e);
        let r3 = quad_x(min(m0 + tm + 48u, step.m - 1u), e);
        most[tn * 16u + tm] = vec4f(largest(r0), largest(r1), largest(r2), largest(r3));
        var w: Scaled;
        if thread < 64u { w = {{w}}; }
        // Nobody multiplies what was there before, and all that is largest stands there.
        workgroupBarrier();
        if thread < 64u {
            let at = thread * 9u;
            ws[at] = vec4h(w.w[0]); ws[at + 1u] = vec4h(w.w[1]); ws[at + 2u] = vec4h(w.w[2]);
            ws[at + 3u] = vec4h(w.w[3]); ws[at + 4u] = vec4h(w.w[4]); ws[at + 5u] = vec4h(w.w[5]);
            ws[at + 6u] = vec4h(w.w[6]); ws[at + 7u] = vec4h(w.w[7]);
            w_scales[thread] = w.scale;
        }
        var scales = most[tm];
        for (var i = 1u; i < 8u; i++) { scales = max(scales, most[i * 16u + tm]); }
        xs[tm * 9u + tn] = vec4h(r0 * inverse_of(scales.x));
        xs[(tm + 16u) * 9u + tn] = vec4h(r1 * inverse_of(scales.y));
        xs[(tm + 32u) * 9u + tn] = vec4h(r2 * inverse_of(scales.z));
        xs[(tm + 48u) * 9u + tn] = vec4h(r3 * inverse_of(scales.w));
        if tn < 4u { x_scales[tm + tn * 16u] = scales[tn]; }
        workgroupBarrier();
        {{declare}}
        for (var q = 0u; q < 8u; q++) {
            {{products}}
        }
        let low = vec4f(w_scales[tn], w_scales[tn + 8u], w_scales[tn + 16u], w_scales[tn + 24u]);
        let high = vec4f(w_scales[tn + 32u], w_scales[tn + 40u], w_scales[tn + 48u], w_scales[tn + 56u]);
        {{add}}
    }
    store(s, m0 + tm, n0 + tn, low0, high0);
    store(s, m0 + tm + 16u, n0 + tn, low1, high1);
    store(s, m0 + tm + 32u, n0 + tn, low2, high2);
    store(s, m0 + tm + 48u, n0 + tn, low3, high3);
}
