// Indices of 9 bits for 8 values with 7 bits of signs, a scale of 4 bits for every 16:
// {d, u16 q[32], s[8]}.
fn unpack_iq2_xs_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 74u;
    let c = chunk & 7u;
    let a = word_{{b}}(block + 2u + 8u * c);
    let b = word_{{b}}(block + 6u + 8u * c);
    let s = byte_{{b}}(block + 66u + c);
    let low = vec4u(group_{{book}}(a & 511u), group_{{book}}((a >> 16u) & 511u));
    let high = vec4u(group_{{book}}(b & 511u), group_{{book}}((b >> 16u) & 511u));
    return Quants(negated(low, masks(even(a >> 9u), even(a >> 25u))),
        negated(high, masks(even(b >> 9u), even(b >> 25u))),
        half_{{b}}(block) * (vec2f(vec2u(s & 15u, s >> 4u)) + vec2f(0.5)) * 0.25, vec2f());
}
