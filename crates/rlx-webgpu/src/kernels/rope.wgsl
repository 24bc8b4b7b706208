// {{name}}   x' = rotation of x by past + row, per head and pair of dimensions   arXiv:2104.09864;
//             cache[h, past + row, :] = k' and v where ctl.done is 0 and row < ctl.len
// shapes      q f32[S, H*E]    k, v f32[S, K*E]    table f32[rows, half, 2]    caches [K, C, E] {{kv}}
// bytes       8 for an element of q; 4 in and {{kv_bytes}} out for one of k or v
// launch      one invocation turns or copies two neighbouring elements: a word of an f16 cache
// numerics    f32; cos and sin from products of two tables, no angle is ever large
struct Step {
    rows: u32, head_dim: u32, half: u32, low_rows: u32, table: u32, ctl: u32,
    q: u32, q_out: u32, q_width: u32, k: u32, v: u32, k_width: u32, k_cache: u32, v_cache: u32, capacity: u32,
}
{{bindings}}
{{angle}}{{turn}}
{{writers}}

@compute @workgroup_size(64)
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let at = ((id.y * launched.x + id.x) * 64u + thread) * 2u;
    let width = step.q_width + 2u * step.k_width;
    let row = at / width;
    let e = at % width;
    let past = {{ctl}}[step.ctl];
    if row >= min(step.rows, {{ctl}}[step.ctl + 1u]) { return; }
    let position = past + row;
    {{body}}
}
