// 16 values of a codebook of -8, 0 and 8, each moved by 1 or, where `down` is set, by -1.
fn moved(a: vec2u, b: vec2u, down: vec2<bool>) -> vec4u {
    let by = select(vec2u(0x01010101u), vec2u(0xffffffffu), down).xxyy;
    let values = vec4u(a, b);
    // A sum of bytes: their low 7 bits, then the top one without a carry.
    let low = vec4u(0x7f7f7f7fu);
    return ((values & low) + (by & low)) ^ ((values ^ by) & vec4u(0x80808080u));
}
