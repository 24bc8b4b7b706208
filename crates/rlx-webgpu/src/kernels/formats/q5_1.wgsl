// 5 bits, scale and minimum: {d, m, h[4], qs[16]}, bits as in q5_0.
fn unpack_q5_1_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + chunk * 24u;
    let dm = unpack2x16float(word_{{b}}(block));
    let h = word_{{b}}(block + 4u);
    let qs = words4_{{b}}(block + 8u);
    let nibble = vec4u(0x0f0f0f0fu);
    let shifts = vec4u(0u, 4u, 8u, 12u);
    return Quants((qs & nibble) | (spread(vec4u(h) >> shifts) << vec4u(4u)),
        ((qs >> vec4u(4u)) & nibble) | (spread(vec4u(h >> 16u) >> shifts) << vec4u(4u)),
        vec2f(dm.x), vec2f(dm.y));
}
