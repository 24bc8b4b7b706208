// grouped_matmul  y_s[m, j, n] = sum_k x[m, k] W_s[e, n, k] + b_s[e, n] with e = ids[m, j]; with glu
//             y[m, j, n] = f(y_0) * y_1
// shapes      x f32[m, k] or [m, j, k]    W_s [e, rows_s, k], any format    y_s f32[m, j, rows_s]
// bytes       a matrix once for 32 of the rows that name its expert, their rows of x once for {{columns}} rows
//             of it; ids once a workgroup; matrices of no other expert; 2 rows_s k operations for each row and
//             each of its experts
// launch      a workgroup of 64 threads has {{columns}} rows of one expert's matrix (glu: of both) and takes the
//             pairs of a row and that expert by 32; a thread makes 4 x 8 results of them
// numerics    f32, k in order: which 32 pairs stand together changes no result
{{step}}
{{bindings}}
{{common}}
{{readers}}
{{activations}}
{{finish}}
// A row is 8 vectors; a ninth keeps rows in different banks.
var<workgroup> xs: array<vec4f, 288>;
var<workgroup> ws: array<vec4f, 576>;
// Pairs of this expert: 32 to multiply, and those that were found with the last of them.
var<workgroup> pairs: array<u32, 96>;
var<workgroup> found: atomic<u32>;
var<workgroup> filled: u32;
{{rows_len}}

fn products(x: vec4f, w0: vec4f, w1: vec4f, w2: vec4f, w3: vec4f) -> vec4f {
    return vec4f(dot(x, w0), dot(x, w1), dot(x, w2), dot(x, w3));
}

fn row_of(pair: u32) -> u32 { return pair / step.top_k; }
fn expert_of(pair: u32) -> u32 { return min({{ids}}[step.ids + pair], step.experts - 1u); }

fn decode(s: u32, expert: u32, row: u32, chunk: u32) -> Weights {
    let own = expert * step.seg[s].rows + min(row, step.seg[s].rows - 1u);
    let at = step.seg[s].weight + own * step.seg[s].row_bytes;
    {{decode}}
}

{{store}}

@compute @workgroup_size(64)
fn grouped_matmul_tile(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    let expert = group / step.groups;
    if expert >= step.experts { return; }
    let column = group % step.groups;
    var s = 0u;
    for (var i = 1u; i < step.segments; i++) {
        if column >= step.seg[i].first { s = i; }
    }
    let n0 = (column - step.seg[s].first) * {{columns}}u;
    let tm = thread / 8u;
    let tn = thread % 8u;
    {{total}}
    // Metal does not clear a workgroup's memory.
    if thread == 0u { atomicStore(&found, 0u); }
    var next = 0u;
    loop {
        // The next pairs of this expert, until there are 32.
        loop {
            workgroupBarrier();
            if thread == 0u { filled = atomicLoad(&found); }
            if workgroupUniformLoad(&filled) >= 32u || next >= total { break; }
            let pair = next + thread;
            if pair < total && expert_of(pair) == expert { pairs[atomicAdd(&found, 1u)] = pair; }
            next += 64u;
        }
        let have = workgroupUniformLoad(&filled);
        if have == 0u { break; }
        let last = min(have, 32u) - 1u;
        let p0 = pairs[min(tm, last)];
        let p1 = pairs[min(tm + 8u, last)];
        let p2 = pairs[min(tm + 16u, last)];
        let p3 = pairs[min(tm + 24u, last)];
        var low0 = vec4f(); var low1 = vec4f(); var low2 = vec4f(); var low3 = vec4f();
        var high0 = vec4f(); var high1 = vec4f(); var high2 = vec4f(); var high3 = vec4f();

        for (var c = 0u; c < step.chunks; c++) {
            {{load_w}}
            let at = thread * 9u;
            ws[at] = w[0]; ws[at + 1u] = w[1]; ws[at + 2u] = w[2]; ws[at + 3u] = w[3];
            ws[at + 4u] = w[4]; ws[at + 5u] = w[5]; ws[at + 6u] = w[6]; ws[at + 7u] = w[7];
            let e = c * 32u + tn * 4u;
            xs[tm * 9u + tn] = quad_x({{row_of_x}}(p0), e);
            xs[(tm + 8u) * 9u + tn] = quad_x({{row_of_x}}(p1), e);
            xs[(tm + 16u) * 9u + tn] = quad_x({{row_of_x}}(p2), e);
            xs[(tm + 24u) * 9u + tn] = quad_x({{row_of_x}}(p3), e);
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
        if tm <= last { store(s, expert, p0, n0 + tn, low0, high0); }
        if tm + 8u <= last { store(s, expert, p1, n0 + tn, low1, high1); }
        if tm + 16u <= last { store(s, expert, p2, n0 + tn, low2, high2); }
        if tm + 24u <= last { store(s, expert, p3, n0 + tn, low3, high3); }
        // What was found beyond 32 comes first next time: fewer than 64.
        let rest = max(have, 32u) - 32u;
        var kept = 0u;
        if thread < rest { kept = pairs[32u + thread]; }
        workgroupBarrier();
        if thread < rest { pairs[thread] = kept; }
        if thread == 0u { atomicStore(&found, rest); }
    }
}
