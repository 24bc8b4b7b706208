// {{name}}  M = exp(g) M + k d^T with d = beta (v - exp(g) M^T k), y = M^T q / sqrt({{n}}), row by row
//                  arXiv:2412.06464
// shapes           q, k f32[s, {{key_heads}}, {{n}}]   v, y f32[s, {{heads}}, {{width}}]   M f32[{{n}}, {{width}}] a head
// bytes            the state once in and once out, however many rows; 4 ({{n}} 2 + {{tile}} 2) a row and workgroup
// launch           a workgroup is {{tile}} columns of a head's matrix: a thread has a part of a column, one of
//                  {{parts}}, in registers while it walks the rows
// numerics         f32; M^T q of the changed matrix is exp(g) M^T q + d (k q), so that a row sums once; rows at
//                  or past ctl.len are zeros
{{step}}const EACH = {{each}}u;                   // quads of a thread's part
const QUADS = EACH * PARTS;               // of a row; what is behind N is zero

// Of two rows each: one is read while the next one comes.
var<workgroup> keys: array<vec4f, 2u * QUADS>;
var<workgroup> queries: array<vec4f, 2u * QUADS>;
var<workgroup> partial: array<vec2f, THREADS>;      // M^T k and M^T q
var<workgroup> partial_of_row: array<vec3f, PARTS>; // k k, q q and k q
var<workgroup> real: u32;
{{helpers}}
{{reads}}
@compute @workgroup_size({{threads}})
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    let head = group / TILES;
    if head >= HEADS { return; }
    let key_head = {{key_head}};
    let column = group % TILES * TILE + thread % TILE;
    let inside = column < WIDTH;
    let first = thread / TILE * EACH;
    if thread == 0u {
        let len = min(step.rows, {{ctl}}[step.ctl + 1u]);
        real = select(0u, len, {{ctl}}[step.ctl + 4u] == 0u);
    }
    let len = workgroupUniformLoad(&real);

    let matrix = step.state + head * N * WIDTH + column;
    {{load}}
    for (var i = 0u; i < len; i++) {
        let now = i % 2u * QUADS;
        for (var w = thread; w < QUADS; w += THREADS) {
            keys[now + w] = quad_of_key(i * step.k_row + key_head * N, w * 4u);
            queries[now + w] = quad_of_query(i * step.q_row + key_head * N, w * 4u);
        }
        let at = i * HEADS + head;
        let decay = {{decay}};
        let beta = {{beta}};
        var value = 0.0;
        if inside { value = bitcast<f32>({{v}}[step.v + i * step.v_row + head * WIDTH + column]); }
        workgroupBarrier();
        let at_quad = now + first;
        var sum = vec2f();
        var products = vec3f();
        {{dots}}
        for (var r = at_quad; r < at_quad + EACH; r++) {
            products += vec3f(dot(keys[r], keys[r]), dot(queries[r], queries[r]), dot(keys[r], queries[r]));
        }
        partial[thread] = sum;
        if thread % TILE == 0u { partial_of_row[thread / TILE] = products; }
        workgroupBarrier();
        var sums = vec2f();
        products = vec3f();
        for (var p = 0u; p < PARTS; p++) {
            sums += partial[p * TILE + thread % TILE];
            products += partial_of_row[p];
        }
        let of_k = {{of_k}};
        let d = beta * (value - decay * of_k * sums.x);
        let change = of_k * d;
        {{fade}}
        {{change}}
        if inside && first == 0u {
            let y = (decay * sums.y + change * products.z) * {{of_q}} * {{root}};
            {{y}}[step.y + at * WIDTH + column] = bitcast<u32>(y);
        }
    }
    if !inside { return; }
    for (var i = len + thread / TILE; i < step.rows; i += PARTS) {
        {{y}}[step.y + (i * HEADS + head) * WIDTH + column] = 0u;
    }
    if len == 0u { return; }
    {{store}}
}
