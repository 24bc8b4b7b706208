// {{name}}         y[i] = f(a[i]{{second}})
// shapes      a, y f32[n]    b f32[n], or a row used again for every row, a number for each row, or one
// bytes       4*n for each operand and for y
// launch      one invocation an element, workgroups of 64
// numerics    f32; of finite arguments no infinity is made on the way to a finite value
struct Step { n: u32, a: u32, b: u32, y: u32, row: u32 }
{{bindings}}
{{function}}
@compute @workgroup_size(64)
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (id.y * launched.x + id.x) * 64u + thread;
    if i >= step.n { return; }
    {{y}}[step.y + i] = bitcast<u32>(f(bitcast<f32>({{a}}[step.a + i]){{b}}));
}
