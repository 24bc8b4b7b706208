// As q4_k with a fifth bit: {d, dmin, scales[12], qh[32], qs[128]}; bit j of qh[i] belongs to
// element i of group j.
fn unpack_q5_k_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 176u;
    let j = chunk & 7u;
    let sm = k_scales_{{b}}(block, j);
    let qs = block + 48u + (j >> 1u) * 32u;
    let shift = vec4u((j & 1u) * 4u);
    let nibble = vec4u(0x0f0f0f0fu);
    let bit = vec4u(0x01010101u);
    let high0 = ((quad_{{b}}(block + 16u) >> vec4u(j)) & bit) << vec4u(4u);
    let high1 = ((quad_{{b}}(block + 32u) >> vec4u(j)) & bit) << vec4u(4u);
    return Quants(((quad_{{b}}(qs) >> shift) & nibble) | high0,
        ((quad_{{b}}(qs + 16u) >> shift) & nibble) | high1, vec2f(sm.x), vec2f(sm.y));
}
