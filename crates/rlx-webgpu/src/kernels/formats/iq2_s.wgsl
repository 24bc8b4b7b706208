// Indices of 10 bits for 8 values, a scale of 4 bits for every 16:
// {d, index[32], signs[32], high 2 bits of indices [8], s[8]}.
fn unpack_iq2_s_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 82u;
    let c = chunk & 7u;
    let n = word_{{b}}(block + 2u + 4u * c);
    let signs = word_{{b}}(block + 34u + 4u * c);
    let h = byte_{{b}}(block + 66u + c);
    let s = byte_{{b}}(block + 74u + c);
    let low = vec4u(group_{{book}}((n & 255u) | ((h & 3u) << 8u)),
        group_{{book}}(((n >> 8u) & 255u) | ((h & 12u) << 6u)));
    let high = vec4u(group_{{book}}(((n >> 16u) & 255u) | ((h & 48u) << 4u)),
        group_{{book}}((n >> 24u) | ((h & 192u) << 2u)));
    return Quants(negated(low, masks(signs & 255u, (signs >> 8u) & 255u)),
        negated(high, masks((signs >> 16u) & 255u, signs >> 24u)),
        half_{{b}}(block) * (vec2f(vec2u(s & 15u, s >> 4u)) + vec2f(0.5)) * 0.25, vec2f());
}
