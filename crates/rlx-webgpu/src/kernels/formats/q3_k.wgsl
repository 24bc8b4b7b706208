// 3 bits less 4 in groups of 16 with a scale of 6 bits: {h[32], qs[64], scales[12], d}. Of each half
// block chunk j of 4 has bits 2j of 32 bytes of qs; bit c of h is the third of the block's chunk c.
fn scale_q3_k_{{b}}(scales: u32, group: u32) -> f32 {
    let low = byte_{{b}}(scales + (group & 7u)) >> ((group >> 3u) * 4u);
    let high = byte_{{b}}(scales + 8u + (group & 3u)) >> ((group >> 2u) * 2u);
    return f32((low & 15u) | ((high & 3u) << 4u)) - 32.0;
}
fn unpack_q3_k_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 110u;
    let c = chunk & 7u;
    let scales = vec2f(scale_q3_k_{{b}}(block + 96u, 2u * c), scale_q3_k_{{b}}(block + 96u, 2u * c + 1u));
    let qs = block + 32u + (c >> 2u) * 32u;
    let shift = vec4u((c & 3u) * 2u);
    let pair = vec4u(0x03030303u);
    let bit = vec4u(0x01010101u);
    let low = ((words4_{{b}}(qs) >> shift) & pair) | (((words4_{{b}}(block) >> vec4u(c)) & bit) << vec4u(2u));
    let high = ((words4_{{b}}(qs + 16u) >> shift) & pair)
        | (((words4_{{b}}(block + 16u) >> vec4u(c)) & bit) << vec4u(2u));
    return Quants(less(low, 4u), less(high, 4u), half_{{b}}(block + 108u) * scales, vec2f());
}
