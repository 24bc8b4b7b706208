// Indices of 11 bits for 8 values, a scale of 3 bits and a direction for every 32: {d, index[32], h[16]};
// h has 4 x 3 high bits, scale, direction. Values are 8 times as large.
fn unpack_iq1_s_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 50u;
    let c = chunk & 7u;
    let n = word_{{b}}(block + 2u + 4u * c);
    let h = word_{{b}}(block + 34u + 2u * c);
    let down = vec2<bool>((h & 0x8000u) != 0u);
    let low = moved(group_{{book}}((n & 255u) | ((h & 7u) << 8u)),
        group_{{book}}(((n >> 8u) & 255u) | ((h & 0x38u) << 5u)), down);
    let high = moved(group_{{book}}(((n >> 16u) & 255u) | ((h & 0x1c0u) << 2u)),
        group_{{book}}((n >> 24u) | ((h & 0xe00u) >> 1u)), down);
    let scale = half_{{b}}(block) * f32(2u * ((h >> 12u) & 7u) + 1u) * 0.125;
    return Quants(low, high, vec2f(scale), vec2f());
}
