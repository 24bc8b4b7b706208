// matmul      y_s[m, n] = f(sum_k x[m, k] W_s[n, k] + b_s[n]) (+ residual[m, n]), x in int8 blocks; with
//             glu y[m, n] = f(y_0[m, n]) * y_1[m, n]
// shapes      x int8 blocks [m, k]    W_s [rows_s, k], packed    y_s f32[m, rows_s]
// bytes       weights once for 64 rows of x, x once for 64 rows of a weight; 4 kB + 4 kB for 64 of k
// launch      a workgroup of 128 threads makes 64 x 64 results (glu: 64 x 32 of both weights), a
//             thread 4 x 8 of them; tiles whose rows are all at or past ctl.len are not made
// numerics    integers within 32 elements (16 where a scale has as many), f32 beyond, k in order
{{step}}
{{bindings}}
{{common}}
{{readers}}
{{activations}}
{{finish}}
// A row is 4 vectors of two chunks; a fifth keeps rows in different banks.
var<workgroup> xs: array<vec4u, 320>;
var<workgroup> ws: array<vec4u, 320>;
// By chunk and row: of x the scale, then it times the sums of 32, of the first 16 and of the others; of
// weights both scales and both offsets.
var<workgroup> x_scales: array<vec4f, 128>;
var<workgroup> w_scales: array<vec4f, 128>;
{{rows_len}}

// Four rows of weights, 8 apart.
struct Columns {
    l0: vec4u, h0: vec4u, l1: vec4u, h1: vec4u, l2: vec4u, h2: vec4u, l3: vec4u, h3: vec4u,
    scale: vec4f, scale_high: vec4f, offset: vec4f, offset_high: vec4f,
}
fn columns(row: u32, h: u32) -> Columns {
    let at = row * 5u + h * 2u;
    let s = h * 64u + row;
    let a = w_scales[s];
    let b = w_scales[s + 8u];
    let c = w_scales[s + 16u];
    let d = w_scales[s + 24u];
    return Columns(ws[at], ws[at + 1u], ws[at + 40u], ws[at + 41u], ws[at + 80u], ws[at + 81u],
        ws[at + 120u], ws[at + 121u], vec4f(a.x, b.x, c.x, d.x), vec4f(a.y, b.y, c.y, d.y),
        vec4f(a.z, b.z, c.z, d.z), vec4f(a.w, b.w, c.w, d.w));
}

// 32 elements of row `row` of x times those of four weights.
fn products(row: u32, h: u32, w: Columns) -> vec4f {
    let low = xs[row * 5u + h * 2u];
    let high = xs[row * 5u + h * 2u + 1u];
    let s = x_scales[h * 64u + row];
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
    // Which row of x and of the weights, and which of two chunks, this thread brings: chunks of a row
    // lie in the same lines of memory, often in the same words, so threads side by side bring them.
    let r = thread / 2u;
    let half = thread % 2u;
    var low0 = vec4f(); var low1 = vec4f(); var low2 = vec4f(); var low3 = vec4f();
    var high0 = vec4f(); var high1 = vec4f(); var high2 = vec4f(); var high3 = vec4f();

    for (var c = 0u; c < step.chunks; c += 2u) {
        // Past the end is the last chunk again, of which x is nothing.
        let chunk = min(c + half, step.chunks - 1u);
        let w = {{load_w}};
        ws[r * 5u + half * 2u] = w.low;
        ws[r * 5u + half * 2u + 1u] = w.high;
        w_scales[half * 64u + r] = vec4f(w.scale, w.offset);
        let x = x_at(min(m0 + r, step.m - 1u), chunk);
        xs[r * 5u + half * 2u] = x.low;
        xs[r * 5u + half * 2u + 1u] = x.high;
        let scale = select(0.0, x.scale, c + half < step.chunks);
        x_scales[half * 64u + r] = scale * vec4f(1.0, x.sums.x + x.sums.y, x.sums);
        workgroupBarrier();
        for (var h = 0u; h < 2u; h++) {
            let first = columns(tn, h);
            low0 += products(tm, h, first);
            low1 += products(tm + 16u, h, first);
            low2 += products(tm + 32u, h, first);
            low3 += products(tm + 48u, h, first);
            let second = columns(tn + 32u, h);
            high0 += products(tm, h, second);
            high1 += products(tm + 16u, h, second);
            high2 += products(tm + 32u, h, second);
            high3 += products(tm + 48u, h, second);
        }
        workgroupBarrier();
    }
    store(s, m0 + tm, n0 + tn, low0, high0);
    store(s, m0 + tm + 16u, n0 + tn, low1, high1);
    store(s, m0 + tm + 32u, n0 + tn, low2, high2);
    store(s, m0 + tm + 48u, n0 + tn, low3, high3);
}
