// 6 bits less 32 in groups of 16 with a signed 8-bit scale: {ql[128], qh[64], scales[16], d}.
// Of each half block, chunk j of 4 has its low bits in ql[32 (j & 1)..], nibble j / 2, and its
// high bits in bits 2j of qh.
fn unpack_q6_k_{{b}}(row: u32, chunk: u32) -> Quants {
    let i = chunk >> 3u;
    {{at}}
    let half = (chunk >> 2u) & 1u;
    let j = chunk & 3u;
    let l = ql + half * 64u + (j & 1u) * 32u;
    let h = qh + half * 32u;
    let t = s + half * 8u + j * 2u;
    let low = vec4u((j >> 1u) * 4u);
    let high = vec4u(j * 2u);
    let nibble = vec4u(0x0f0f0f0fu);
    let pair = vec4u(0x03030303u);
    let q0 = (({{words}}_{{b}}(l) >> low) & nibble) | ((({{words}}_{{b}}(h) >> high) & pair) << vec4u(4u));
    let q1 = (({{words}}_{{b}}(l + 16u) >> low) & nibble)
        | ((({{words}}_{{b}}(h + 16u) >> high) & pair) << vec4u(4u));
    let scales = vec2f(bytes_of(byte_{{b}}(t)).x, bytes_of(byte_{{b}}(t + 1u)).x);
    return Quants(less(q0, 32u), less(q1, 32u), half_{{b}}(d) * scales, vec2f());
}
