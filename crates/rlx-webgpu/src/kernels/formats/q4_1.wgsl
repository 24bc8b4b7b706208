// 4 bits, scale and minimum: {d, m, qs[16]}, low nibbles are elements 0..16, high ones 16..32.
fn unpack_q4_1_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + chunk * 20u;
    let dm = unpack2x16float(word_{{b}}(block));
    let qs = words4_{{b}}(block + 4u);
    let nibble = vec4u(0x0f0f0f0fu);
    return Quants(qs & nibble, (qs >> vec4u(4u)) & nibble, vec2f(dm.x), vec2f(dm.y));
}
