// {{entry}}        places of elements in order: before one come those that are {{before}}, and equal ones ahead of it
// shapes      x {{type}}[outer, n, inner], the axis in the middle    {{shapes}}
// bytes       x's for each 64 elements of a run, and the results'
// launch      one invocation an element of x, workgroups of 64 of one run
// numerics    exact; a NaN is larger than all numbers, zeros are equal
struct Step { w: array<vec4u, 16> }
{{bindings}}
{{functions}}
fn key_of(at: u32) -> u32 {
    let x = load_x(at);
    {{key}}
}
var<workgroup> keys: array<u32, 64>;
@compute @workgroup_size(64)
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    if group >= {{groups}} { return; }
    let run = group / {{tiles}};
    let first = run / {{inner}} * {{n}} * {{inner}} + run % {{inner}};
    let own = group % {{tiles}} * 64u + thread;
    let mine = key_of(first + min(own, {{n}} - 1u) * {{inner}});
    var place = 0u;
    for (var j0 = 0u; j0 < {{n}}; j0 += 64u) {
        workgroupBarrier();
        keys[thread] = key_of(first + min(j0 + thread, {{n}} - 1u) * {{inner}});
        workgroupBarrier();
        for (var j = 0u; j < min(64u, {{n}} - j0); j++) {
            let other = keys[j];
            place += select(0u, 1u, other {{order}} mine || (other == mine && j0 + j < own));
        }
    }
    if own >= {{n}} { return; }
    {{store}}
}
