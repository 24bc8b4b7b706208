// Indices of 8 bits for 8 values, 7 bits of signs each, a scale of 4 bits for every 32:
// {d, 8 x {index[4], g}}; g has 4 x 7 signs, scale.
fn unpack_iq2_xxs_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 66u;
    let at = block + 2u + (chunk & 7u) * 8u;
    let n = word_{{b}}(at);
    let g = word_{{b}}(at + 4u);
    let low = vec4u(group_{{book}}(n & 255u), group_{{book}}((n >> 8u) & 255u));
    let high = vec4u(group_{{book}}((n >> 16u) & 255u), group_{{book}}(n >> 24u));
    return Quants(negated(low, masks(even(g), even(g >> 7u))),
        negated(high, masks(even(g >> 14u), even(g >> 21u))),
        vec2f(half_{{b}}(block) * (f32(g >> 28u) + 0.5) * 0.25), vec2f());
}
