// Indices of 8 bits for 4 values, 7 bits of signs for 8, a scale of 4 bits for every 32:
// {d, index[64], u32 g[8]}; g has 4 x 7 signs, scale.
fn unpack_iq3_xxs_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 98u;
    let c = chunk & 7u;
    let a = word_{{b}}(block + 2u + 8u * c);
    let b = word_{{b}}(block + 6u + 8u * c);
    let g = word_{{b}}(block + 66u + 4u * c);
    let low = vec4u({{book}}[a & 255u], {{book}}[(a >> 8u) & 255u], {{book}}[(a >> 16u) & 255u], {{book}}[a >> 24u]);
    let high = vec4u({{book}}[b & 255u], {{book}}[(b >> 8u) & 255u], {{book}}[(b >> 16u) & 255u], {{book}}[b >> 24u]);
    return Quants(negated(low, masks(even(g), even(g >> 7u))),
        negated(high, masks(even(g >> 14u), even(g >> 21u))),
        vec2f(half_{{b}}(block) * (f32(g >> 28u) + 0.5) * 0.5), vec2f());
}
