// 4 bits in groups of 32 with scale and minimum: {d, dmin, scales[12], qs[128]}; two groups share
// 32 bytes, low and high nibbles.
fn unpack_q4_k_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 144u;
    let j = chunk & 7u;
    let sm = k_scales_{{b}}(block, j);
    let qs = block + 16u + (j >> 1u) * 32u;
    let shift = vec4u((j & 1u) * 4u);
    let mask = vec4u(0x0f0f0f0fu);
    return Quants((quad_{{b}}(qs) >> shift) & mask, (quad_{{b}}(qs + 16u) >> shift) & mask,
        vec2f(sm.x), vec2f(sm.y));
}
