// {{name}} y[b, m, n] = sum over k of a[b, m, k] * b[b, k, n]
// shapes      a, b {{type}} in any order of axes, of which batches may repeat    y {{type}}[batch, M, N]
// bytes       a's for each {{tile_n}} columns of y, b's for each {{tile_m}} rows, y's once
// launch      a workgroup of 256 threads makes {{tile_m}} x {{tile_n}} of y, a thread {{rows}} x 4
// numerics    f32, added in the order of k; {{k_tile}} of k at a time in the workgroup's memory
struct Step { w: array<vec4u, 16> }
{{bindings}}
{{functions}}
const TILE_M = {{tile_m}}u;
const TILE_N = {{tile_n}}u;
const K = {{k_tile}}u;
// A row of either is one element longer than it has to be: neighbours lie in different banks.
var<workgroup> tile_a: array<f32, {{size_a}}>;
var<workgroup> tile_b: array<f32, {{size_b}}>;
@compute @workgroup_size(256)
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    if group >= {{groups}} { return; }
    let batch = group / ({{tiles_m}} * {{tiles_n}});
    let m0 = group / {{tiles_n}} % {{tiles_m}} * TILE_M;
    let n0 = group % {{tiles_n}} * TILE_N;
    let a0 = batch_a(batch);
    let b0 = batch_b(batch);
    let tm = thread / 16u * {{rows}}u;
    let tn = thread % 16u * 4u;
    {{clear}}
    for (var k0 = 0u; k0 < {{k}}; k0 += K) {
        for (var i = thread; i < TILE_M * K; i += 256u) {
            let m = {{a_m}};
            let k = {{a_k}};
            var v = 0.0;
            if m0 + m < {{m}} && k0 + k < {{k}} { v = load_a(a0 + rows_of_a(m0 + m) + k_of_a(k0 + k)); }
            tile_a[k * (TILE_M + 1u) + m] = v;
        }
        for (var i = thread; i < TILE_N * K; i += 256u) {
            let n = {{b_n}};
            let k = {{b_k}};
            var v = 0.0;
            if n0 + n < {{n}} && k0 + k < {{k}} { v = load_b(b0 + columns_of_b(n0 + n) + k_of_b(k0 + k)); }
            tile_b[k * (TILE_N + 1u) + n] = v;
        }
        workgroupBarrier();
        for (var k = 0u; k < K; k++) {
            let at = k * (TILE_N + 1u) + tn;
            let b = vec4f(tile_b[at], tile_b[at + 1u], tile_b[at + 2u], tile_b[at + 3u]);
            let a = k * (TILE_M + 1u) + tm;
            {{add}}
        }
        workgroupBarrier();
    }
    {{store}}
}
