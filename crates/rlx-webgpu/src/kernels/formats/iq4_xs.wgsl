// As iq4_nl in blocks of 256 with a scale of 6 bits less 32 for every 32: {d, high, low[4], qs[128]}.
fn unpack_iq4_xs_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 136u;
    let c = chunk & 7u;
    let high = word_{{b}}(block) >> (16u + 2u * c);
    let low = word_{{b}}(block + 4u) >> (4u * c);
    let scale = f32((low & 15u) | ((high & 3u) << 4u)) - 32.0;
    let qs = words4_{{b}}(block + 8u + 16u * c);
    return Quants(iq4_values(qs), iq4_values(qs >> vec4u(4u)), vec2f(half_{{b}}(block) * scale), vec2f());
}
