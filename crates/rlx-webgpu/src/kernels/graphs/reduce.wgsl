// reduce      y[i] = {{f}} of x along the reduced axes; a long run of elements
// shapes      x {{type}} of any rank    y {{type}}[n]
// bytes       x's and y's
// launch      a workgroup of {{threads}} threads is an element of y, a thread strides the run
// numerics    {{register}}; {{threads}} partial results, then a tree
struct Step { w: array<vec4u, 16> }
{{bindings}}
{{functions}}
var<workgroup> shared_parts: array<{{register}}, {{threads}}>;
@compute @workgroup_size({{threads}})
fn reduce(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = id.y * launched.x + id.x;
    if i >= {{n}} { return; }
    {{kept}}
    var all = {{start}};
    for (var r = thread; r < {{count}}; r += {{threads}}u) {
        {{along}}
        all = {{step}};
    }
    shared_parts[thread] = all;
    workgroupBarrier();
    for (var half = {{threads}}u / 2u; half > 0u; half /= 2u) {
        if thread < half {
            let v = shared_parts[thread + half];
            all = {{step}};
            shared_parts[thread] = all;
        }
        workgroupBarrier();
    }
    if thread == 0u { {{y}}[{{y_start}} + i] = {{result}}; }
}
