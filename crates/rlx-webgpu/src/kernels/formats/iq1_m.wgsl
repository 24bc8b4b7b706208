// As iq1_s with a direction for every 8 and a scale for every 16: {index[32], h[16], s[8]}; a nibble of h
// an index, 3 high bits and the direction; of four u16 s the top nibbles are d, then four scales each.
fn unpack_iq1_m_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 56u;
    let c = chunk & 7u;
    let n = word_{{b}}(block + 4u * c);
    let h = word_{{b}}(block + 32u + 2u * c);
    let s = vec2u(word_{{b}}(block + 48u), word_{{b}}(block + 52u));
    let d = unpack2x16float(((s.x >> 12u) & 15u) | ((s.x >> 24u) & 0xf0u)
        | ((s.y >> 4u) & 0xf00u) | ((s.y >> 16u) & 0xf000u)).x;
    let low = moved(group_{{book}}((n & 255u) | ((h & 7u) << 8u)),
        group_{{book}}(((n >> 8u) & 255u) | ((h & 0x70u) << 4u)), (vec2u(h) & vec2u(8u, 0x80u)) != vec2u());
    let high = moved(group_{{book}}(((n >> 16u) & 255u) | (h & 0x700u)),
        group_{{book}}((n >> 24u) | ((h & 0x7000u) >> 4u)), (vec2u(h) & vec2u(0x800u, 0x8000u)) != vec2u());
    let scales = select(s.x, s.y, c >= 4u) >> (((c >> 1u) & 1u) * 16u + (c & 1u) * 6u);
    return Quants(low, high, d * vec2f(vec2u(2u) * (vec2u(scales, scales >> 3u) & vec2u(7u)) + vec2u(1u)) * 0.125,
        vec2f());
}
