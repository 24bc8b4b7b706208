// {{name}}  M = exp(g) M + k d^T with d = beta (v - exp(g) M^T k), y = M^T q / sqrt({{n}}), row by row
//                  arXiv:2412.06464
// shapes           q, k f32[s, {{key_heads}}, {{n}}]   v, y f32[s, {{heads}}, {{width}}]   M f32[{{n}}, {{width}}] a head
// bytes            the state once in and once out, however many rows; 4 ({{n}} 2 + {{tile}} 2) a row and workgroup
// launch           a workgroup is {{tile}} columns of a head's matrix: a thread has a part of a column, one of
//                  {{parts}}, in registers while it walks the rows
// numerics         f32; M^T q of the changed matrix is exp(g) M^T q + d (k q), so that a row sums once; rows at
//                  or past ctl.len are zeros
struct Step {
    rows: u32, q: u32, k: u32, v: u32, q_row: u32, k_row: u32, v_row: u32, eps: f32,
    a: u32, b: u32, decay: u32, dt: u32, state: u32, ctl: u32, y: u32, pad0: u32,
}
{{bindings}}
const HEADS = {{heads}}u;
const KEY_HEADS = {{key_heads}}u;
const N = {{n}}u;
const WIDTH = {{width}}u;
const TILE = {{tile}}u;
const TILES = (WIDTH + TILE - 1u) / TILE;
const PARTS = {{parts}}u;
const THREADS = {{threads}}u;
const EACH = (N + PARTS - 1u) / PARTS;    // rows of a thread's part
const ROOM = EACH * PARTS;

// Of two rows each: one is read while the next one comes. What is behind N stays zero.
var<workgroup> keys: array<f32, 2u * ROOM>;
var<workgroup> queries: array<f32, 2u * ROOM>;
var<workgroup> partial: array<vec2f, THREADS>;      // M^T k and M^T q
var<workgroup> partial_of_row: array<vec3f, PARTS>; // k k, q q and k q
var<workgroup> real: u32;
{{helpers}}
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
    var m: array<f32, EACH>;
    for (var r = 0u; r < EACH; r++) {
        m[r] = 0.0;
        if inside && first + r < N { m[r] = bitcast<f32>({{state}}[matrix + (first + r) * WIDTH]); }
    }
    for (var i = 0u; i < len; i++) {
        let now = i % 2u * ROOM;
        for (var n = thread; n < N; n += THREADS) {
            let at = key_head * N + n;
            keys[now + n] = bitcast<f32>({{k}}[step.k + i * step.k_row + at]);
            queries[now + n] = bitcast<f32>({{q}}[step.q + i * step.q_row + at]);
        }
        let at = i * HEADS + head;
        let decay = {{decay}};
        let beta = {{beta}};
        var value = 0.0;
        if inside { value = bitcast<f32>({{v}}[step.v + i * step.v_row + head * WIDTH + column]); }
        workgroupBarrier();
        var sums = vec2f();
        var products = vec3f();
        for (var r = 0u; r < EACH; r++) {
            let k = keys[now + first + r];
            let q = queries[now + first + r];
            sums += m[r] * vec2f(k, q);
            products += vec3f(k * k, q * q, k * q);
        }
        partial[thread] = sums;
        if thread % TILE == 0u { partial_of_row[thread / TILE] = products; }
        workgroupBarrier();
        sums = vec2f();
        products = vec3f();
        for (var p = 0u; p < PARTS; p++) {
            sums += partial[p * TILE + thread % TILE];
            products += partial_of_row[p];
        }
        let of_k = {{of_k}};
        let d = beta * (value - decay * of_k * sums.x);
        let change = of_k * d;
        for (var r = 0u; r < EACH; r++) { m[r] = decay * m[r] + keys[now + first + r] * change; }
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
    for (var r = 0u; r < EACH; r++) {
        if first + r < N { {{state}}[matrix + (first + r) * WIDTH] = bitcast<u32>(m[r]); }
    }
}
