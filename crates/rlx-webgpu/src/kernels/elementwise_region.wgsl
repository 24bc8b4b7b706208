// elementwise_region   y[i] = {{formula}}
// shapes      y f32[n]    i0, ... f32[n], or a row used again for every row, a number for each row, or one
// bytes       4*n for each input and for y
// launch      one invocation an element, workgroups of 64
// numerics    f32, step by step; of finite arguments no infinity is made on the way to a finite value
struct Step { n: u32, row: u32, y: u32, i0: u32, i1: u32, i2: u32, i3: u32, i4: u32, i5: u32 }
{{bindings}}
{{functions}}
@compute @workgroup_size(64)
fn elementwise_region(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (id.y * launched.x + id.x) * 64u + thread;
    if i >= step.n { return; }
    {{body}}
}
