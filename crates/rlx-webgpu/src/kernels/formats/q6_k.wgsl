// 6 bits less 32 in groups of 16 with a signed 8-bit scale: {ql[128], qh[64], scales[16], d}.
// Of each half block, chunk j of 4 has its low bits in ql[32 (j & 1)..], nibble j / 2, and its
// high bits in bits 2j of qh.
fn unpack_q6_k_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 210u;
    let half = (chunk >> 2u) & 1u;
    let j = chunk & 3u;
    let ql = block + half * 64u + (j & 1u) * 32u;
    let qh = block + 128u + half * 32u;
    let s = block + 192u + half * 8u + j * 2u;
    let low = vec4u((j >> 1u) * 4u);
    let high = vec4u(j * 2u);
    let nibble = vec4u(0x0f0f0f0fu);
    let pair = vec4u(0x03030303u);
    let q0 = ((words4_{{b}}(ql) >> low) & nibble) | (((words4_{{b}}(qh) >> high) & pair) << vec4u(4u));
    let q1 = ((words4_{{b}}(ql + 16u) >> low) & nibble)
        | (((words4_{{b}}(qh + 16u) >> high) & pair) << vec4u(4u));
    let scales = vec2f(bytes_of(byte_{{b}}(s)).x, bytes_of(byte_{{b}}(s + 1u)).x);
    return Quants(less(q0, 32u), less(q1, 32u), half_{{b}}(block + 208u) * scales, vec2f());
}
