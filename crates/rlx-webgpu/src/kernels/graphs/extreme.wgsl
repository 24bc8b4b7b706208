// {{entry}}      y[i] = the lowest index of the {{what}} element of a run; a NaN is none, 0 where all are
// shapes      x {{type}}[outer, n, inner], the axis in the middle    y u32[outer * inner]
// bytes       x's and y's
// launch      a workgroup of 64 threads is a run, a thread strides it
// numerics    exact
struct Step { w: array<vec4u, 16> }
{{bindings}}
{{functions}}
const NONE = 0xffffffffu;
var<workgroup> tops: array<{{register}}, 64>;
var<workgroup> places: array<u32, 64>;
@compute @workgroup_size(64)
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let run = id.y * launched.x + id.x;
    if run >= {{runs}} { return; }
    let first = run / {{inner}} * {{n}} * {{inner}} + run % {{inner}};
    var top = {{register}}(0);
    var best = NONE;
    for (var j = thread; j < {{n}}; j += 64u) {
        let v = load_x(first + j * {{inner}});
        if {{number}} && (best == NONE || v {{beats}} top) {
            top = v;
            best = j;
        }
    }
    tops[thread] = top;
    places[thread] = best;
    workgroupBarrier();
    for (var half = 32u; half > 0u; half /= 2u) {
        if thread < half {
            let v = tops[thread + half];
            let j = places[thread + half];
            if j != NONE && (best == NONE || v {{beats}} top || (v == top && j < best)) {
                top = v;
                best = j;
                tops[thread] = v;
                places[thread] = j;
            }
        }
        workgroupBarrier();
    }
    if thread == 0u { {{y}}[{{y_start}} + run] = select(best, 0u, best == NONE); }
}
