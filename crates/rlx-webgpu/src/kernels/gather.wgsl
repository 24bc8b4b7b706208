// gather      y[i, :] = table[min(ids[i], rows - 1), :]
// shapes      table [rows, k], any format    ids u32[n]    y f32[n, k]
// bytes       n rows of the table in, 4*n*k out
// launch      one invocation decodes one chunk of 32, workgroups of 64
// numerics    exact for f32, f16, bf16; one multiply (and one add) for packed types
struct Step {
    k: u32, chunks: u32, n: u32, rows: u32, table: u32, row_bytes: u32, ids: u32, y: u32,
    first: u32, own: u32,  // of a table in parts: this part's rows
}
{{bindings}}
{{common}}
{{readers}}
@compute @workgroup_size(64)
fn gather(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let at = (id.y * launched.x + id.x) * 64u + thread;
    let i = at / step.chunks;
    let chunk = at % step.chunks;
    if i >= step.n { return; }
    {{skip}}
    let row = min({{ids}}[step.ids + i], step.rows - 1u){{from}};
    {{others}}
    var w = decode_{{reader}}(step.table + row * step.row_bytes, chunk);
    let first = step.y + i * step.k;
    for (var q = 0u; q < 32u; q++) {
        let e = chunk * 32u + q;
        if e < step.k { {{y}}[first + e] = bitcast<u32>(w[q / 4u][q % 4u]); }
    }
}
