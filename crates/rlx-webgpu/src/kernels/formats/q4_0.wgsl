// 4 bits less 8, one f16 scale: {d, qs[16]}, low nibbles are elements 0..16, high ones 16..32.
fn unpack_q4_0_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + chunk * 18u;
    let d = half_{{b}}(block);
    let qs = words4_{{b}}(block + 2u);
    return Quants(less(qs & vec4u(0x0f0f0f0fu), 8u), less((qs >> vec4u(4u)) & vec4u(0x0f0f0f0fu), 8u),
        vec2f(d), vec2f());
}
