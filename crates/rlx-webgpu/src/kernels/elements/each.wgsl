// {{formula}}: value(i) is y[i]
// shapes      {{shapes}}
// bytes       {{bytes}}
// launch      one invocation a word of y, workgroups of 64
// numerics    {{numerics}}
struct Step { w: array<vec4u, 16> }
{{bindings}}
{{functions}}
fn value(i: u32) -> u32 {
    {{body}}
}
@compute @workgroup_size(64)
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let at = (id.y * launched.x + id.x) * 64u + thread;
    {{store}}
}
