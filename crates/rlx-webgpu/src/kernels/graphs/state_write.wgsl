// state_write   y[.., min(at, N - n) + i, ..] = x[.., i, ..]
// shapes      y {{to}}[outer, N, inner], a state    x {{from}}[outer, n, inner]    at u32[1]
// bytes       x's twice
// launch      one invocation a word of y, workgroups of 64
// numerics    exact, or rounded once to y's type
struct Step { w: array<vec4u, 16> }
{{bindings}}
{{functions}}
@compute @workgroup_size(64)
fn state_write(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let word = (id.y * launched.x + id.x) * 64u + thread;
    if word >= {{n}} { return; }
    let first = min({{at}}[{{at_start}}], {{last}});
    var bits = 0u;
    for (var e = 0u; e < {{per}}u; e++) {
        bits |= value(word * {{per}}u + e) << (e * {{bits}}u);
    }
    {{y}}[{{y_start}} + (word / {{run}} * {{rows}} + first) * {{slice}} + word % {{run}}] = bits;
}
