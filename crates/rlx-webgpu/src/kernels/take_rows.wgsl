// take_rows   y[r, :] = x[len - rows + r, :], row 0 where that is before the first
// shapes      x f32[S, k]    y f32[rows, k]    ctl u32[16], len is word 1
// bytes       8*rows*k
// launch      one invocation an element, workgroups of 64
// numerics    exact
struct Step { k: u32, rows: u32, x: u32, y: u32, ctl: u32, x_rows: u32 }
{{bindings}}
@compute @workgroup_size(64)
fn take_rows(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (id.y * launched.x + id.x) * 64u + thread;
    if i >= step.rows * step.k { return; }
    let len = min({{ctl}}[step.ctl + 1u], step.x_rows);
    let start = max(len + i / step.k, step.rows) - step.rows;
    {{y}}[step.y + i] = {{x}}[step.x + start * step.k + i % step.k];
}
