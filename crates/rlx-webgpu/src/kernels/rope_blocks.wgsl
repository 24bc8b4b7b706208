// {{name}}   x' = rotation of x by past + row, per head and pair of dimensions   arXiv:2104.09864;
//             cache[h, past + row, :] = k' and v where ctl.done is 0 and row < ctl.len, in blocks of 32; q8_0:
//             d = max|x| / 127, q = round(x / d), ties away from 0; q4_0: d = -x / 8 of the largest |x|,
//             q = min(15, floor(x / d + 8.5))
// shapes      q f32[S, H*E]    k, v f32[S, K*E]    table f32[rows, half, 2]    caches [K, C, E] {{kv}}: blocks
//             {d f16, q i8[32]} or {d f16, q u4[32]}, E a multiple of 64
// bytes       8 for an element of q; 4 in and {{words}}/16 out for one of k or v
// launch      one invocation turns or copies two neighbouring elements; 32 of them have two blocks, {{words}} words
// numerics    f32; cos and sin from products of two tables; d is rounded to f16 after q is made
struct Step {
    rows: u32, head_dim: u32, half: u32, low_rows: u32, table: u32, ctl: u32,
    q: u32, q_out: u32, q_width: u32, k: u32, v: u32, k_width: u32, k_cache: u32, v_cache: u32, capacity: u32,
}
{{bindings}}
{{angle}}{{turn}}
{{writers}}
{{maker}}
const NOWHERE = 0xffffffffu;

// Two elements of a cache, and the word that their two blocks start at.
struct Made { pair: vec2f, at: u32 }

fn made(row: u32, e: u32) -> Made {
    let past = {{ctl}}[step.ctl];
    if row >= min(step.rows, {{ctl}}[step.ctl + 1u]) { return Made(vec2f(), NOWHERE); }
    let position = past + row;
    {{body}}
}

@compute @workgroup_size(64)
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let at = ((id.y * launched.x + id.x) * 64u + thread) * 2u;
    let width = step.q_width + 2u * step.k_width;
    let e = at % width;
    // Heads are whole 64 elements: 32 invocations make parts of one.
    let mine = made(at / width, e);
    let bits = word_of_blocks(mine.pair, thread);
    if mine.at == NOWHERE || thread % 32u >= {{words}}u { return; }
    let to = mine.at + thread % 32u;
    {{store}}
}
