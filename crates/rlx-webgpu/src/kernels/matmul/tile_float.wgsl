// matmul      y_s[m, n] = f(sum_k x[m, k] W_s[n, k] + b_s[n]) (+ residual[m, n]); with glu
//             y[m, n] = f(y_0[m, n]) * y_1[m, n]
// shapes      x f32[m, k]    W_s {{type}}[rows_s, k]    y_s f32[m, rows_s]; whole fours of all
// bytes       weights once for {{side}} rows of x, x once for {{side}} rows of weights, y once; 16 kB for {{k_tile}} of k
// launch      a workgroup of 256 threads makes {{side}} x {{side}} results (glu: half of the columns of both weights), a
//             thread {{own}} x {{own}} of them
// numerics    f32, k in order
{{step}}
{{bindings}}
{{common}}
{{finish}}
// Four elements of k of each of {{fours}} fours of rows: planes of x, then of weights. Row `i` of plane `p` stands at
// `i ^ p * {{spread}}`, so that threads that write neighbouring planes use different banks.
alias Plane = array<array<vec4f, {{fours}}>, 4>;
var<workgroup> planes: array<Plane, {{planes}}>;

{{store}}

@compute @workgroup_size(256)
fn matmul_tile_float(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    let m0 = (group / step.groups) * {{side}}u;
    if m0 >= step.m { return; }
    let column = group % step.groups;
    var s = 0u;
    for (var i = 1u; i < step.segments; i++) {
        if column >= step.seg[i].first { s = i; }
    }
    let n0 = (column - step.seg[s].first) * {{columns}}u;
    // Eight by four threads of 32 have neighbouring results.
    let tx = thread % 8u + thread / 32u % 2u * 8u;
    let ty = thread / 8u % 4u + thread / 64u * 4u;
    // The first half of the threads brings x, the other weights: four rows each, four elements of k.
    let is_x = thread < 128u;
    let plane = thread % {{half}}u;
    let row = thread % 128u / {{half}}u;
    let k_fours = step.k / 4u;
    let own_segment = {{own_segment}};
    let x_rows = min(vec4u(m0 + row * 4u) + vec4u(0u, 1u, 2u, 3u), vec4u(step.m - 1u)) * k_fours + step.x / 4u;
    let w_rows = step.seg[own_segment].weight / {{unit}}u
        + min(vec4u({{w_row}}) + vec4u(0u, 1u, 2u, 3u), vec4u(step.seg[own_segment].rows - 1u)) * k_fours;
    var raw0 = vec4u(); var raw1 = vec4u(); var raw2 = vec4u(); var raw3 = vec4u();
    {{clear}}
    var at = min(plane, k_fours - 1u);
    {{load}}
    for (var first = 0u; first < k_fours; first += {{half}}u) {
        var v0 = bitcast<vec4f>(raw0); var v1 = bitcast<vec4f>(raw1);
        var v2 = bitcast<vec4f>(raw2); var v3 = bitcast<vec4f>(raw3);
        {{widen}}
        workgroupBarrier();
        let to = select({{half}}u, 0u, is_x) + plane;
        let place = row ^ (plane * {{spread}}u);
        planes[to][0][place] = vec4f(v0.x, v1.x, v2.x, v3.x);
        planes[to][1][place] = vec4f(v0.y, v1.y, v2.y, v3.y);
        planes[to][2][place] = vec4f(v0.z, v1.z, v2.z, v3.z);
        planes[to][3][place] = vec4f(v0.w, v1.w, v2.w, v3.w);
        workgroupBarrier();
        // What comes next is on its way while this is multiplied.
        at = min(first + {{half}}u + plane, k_fours - 1u);
        {{load}}
        let fours = min({{half}}u, k_fours - first);
        for (var p = 0u; p < fours; p++) {
            let y = ty ^ (p * {{spread}}u);
            let x = tx ^ (p * {{spread}}u);
            {{products}}
        }
    }
    {{stores}}
}
