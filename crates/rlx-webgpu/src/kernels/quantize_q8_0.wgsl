// quantize_q8_0   d = max|x| / 127, q = round(x / d), ties away from 0, for every 32 elements
// shapes      x f32[n]    y blocks {d f16, q i8[32]}, 34 bytes each
// bytes       4*n in, 34*n/32 out
// launch      one invocation makes two blocks, 17 whole words; workgroups of 64
// numerics    d is rounded to f16 after q is made
struct Step { blocks: u32, x: u32, y: u32, per_row: u32 }
{{bindings}}
{{rows_len}}fn at(i: u32) -> f32 { return bitcast<f32>({{x}}[step.x + i]); }

fn scale_of(block: u32) -> f32 {
    var most = 0.0;
    for (var i = 0u; i < 32u; i++) { most = max(most, abs(at(block * 32u + i))); }
    return most / 127.0;
}

fn quant(x: f32, inverse: f32) -> u32 {
    let v = x * inverse;
    return bitcast<u32>(i32(sign(v) * floor(abs(v) + 0.5))) & 255u;
}

// Bytes 2i and 2i + 1 of a block's quants.
fn two(block: u32, inverse: f32, i: u32) -> u32 {
    let e = block * 32u + i * 2u;
    return quant(at(e), inverse) | (quant(at(e + 1u), inverse) << 8u);
}

fn inverse_of(d: f32) -> f32 { return select(0.0, 1.0 / d, d > 0.0); }

@compute @workgroup_size(64)
fn quantize_q8_0(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = ((id.y * launched.x + id.x) * 64u + thread) * 2u;
    if first >= step.blocks { return; }
    {{skip}}
    let y = step.y + first / 2u * 17u;
    let d0 = scale_of(first);
    let i0 = inverse_of(d0);
    {{y}}[y] = (pack2x16float(vec2f(d0, 0.0)) & 0xffffu) | (two(first, i0, 0u) << 16u);
    for (var i = 1u; i < 8u; i++) {
        {{y}}[y + i] = two(first, i0, i * 2u - 1u) | (two(first, i0, i * 2u) << 16u);
    }
    let tail = two(first, i0, 15u);
    if first + 1u >= step.blocks {
        {{y}}[y + 8u] = tail;
        return;
    }
    let d1 = scale_of(first + 1u);
    let i1 = inverse_of(d1);
    {{y}}[y + 8u] = tail | (pack2x16float(vec2f(d1, 0.0)) << 16u);
    for (var i = 0u; i < 8u; i++) {
        {{y}}[y + 9u + i] = two(first + 1u, i1, i * 2u) | (two(first + 1u, i1, i * 2u + 1u) << 16u);
    }
}
