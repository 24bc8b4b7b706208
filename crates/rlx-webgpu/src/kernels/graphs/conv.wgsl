// conv        y[n, o, p] = bias[o] + sum over c, t of x[n, c, p * stride + t * dilation - low] * w[o, c, t]
// shapes      {{type}}: x [N, C, ..]    w [O, C / groups, k..]    bias [O]    y [N, O, ..]
// bytes       w's for each {{tile_n}} places of all images, x's once a tap for each {{tile_m}} filters (neighbouring
//             taps from a cache), y's once; 2 K operations a result, K = C / groups * taps; no columns are stored
// launch      a workgroup of 256 threads makes {{tile_m}} filters x {{tile_n}} places of a group
// numerics    f32, added in the order of k; {{k_tile}} of k at a time in the workgroup's memory; rounded once
struct Step { w: array<vec4u, 16> }
{{bindings}}
{{functions}}
const K = {{k_tile}}u;
const NQ = {{nq}}u;
// Quads of a step of k, and one more: threads that store neighbours use different banks.
const A = {{mq}}u + 1u;
var<workgroup> tile_a: array<vec4f, {{size_a}}>;
var<workgroup> tile_b: array<vec4f, {{size_b}}>;
@compute @workgroup_size(256)
fn conv(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    if group >= {{groups}} { return; }
    let g = group / ({{tiles_m}} * {{tiles_n}});
    let m0 = group / {{tiles_n}} % {{tiles_m}} * {{tile_m}}u;
    let n0 = group % {{tiles_n}} * {{tile_n}}u;
    let tx = thread % {{tx}}u;
    let ty = thread / {{tx}}u;
    let four = vec4u(0u, 1u, 2u, 3u);
    // A thread always loads the same four places. Past the last one it loads that one again.
    let column = min(n0 + thread % NQ * 4u + four, vec4u({{n}} - 1u));
    let image = column / {{places}} * {{images}} + g * {{group}};
    var rest = column % {{places}};
    {{start}}
    {{clear}}
    for (var k0 = 0u; k0 < {{k}}; k0 += K) {
        for (var i = thread; i < {{mq}}u * K; i += 256u) {
            let k = k0 + i % K;
            var v = vec4f();
            if k < {{k}} {
                let at = (g * {{m}} + min(m0 + i / K * 4u + four, vec4u({{m}} - 1u))) * {{k}} + k;
                v = vec4f(load_w(at.x), load_w(at.y), load_w(at.z), load_w(at.w));
            }
            tile_a[i % K * A + i / K] = v;
        }
        for (var i = thread; i < NQ * K; i += 256u) {
            let k = k0 + i / NQ;
            var v = vec4f();
            if k < {{k}} {
                var tap = k % {{taps}}u;
                var at = image + k / {{taps}}u * {{plane}};
                var inside = vec4<bool>(true);
                {{tap}}
                at = select(vec4u(), at, inside);
                v = select(vec4f(), vec4f(load_x(at.x), load_x(at.y), load_x(at.z), load_x(at.w)), inside);
            }
            tile_b[i] = v;
        }
        workgroupBarrier();
        for (var k = 0u; k < K; k++) {
            {{read}}
            {{add}}
        }
        workgroupBarrier();
    }
    let m = m0 + ty * 4u;
    {{store}}
}
