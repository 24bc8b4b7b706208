// 5 bits less 16, one scale: {d, h[4], qs[16]}, nibbles as in q4_0; bit i of h is element i's fifth.
fn unpack_q5_0_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + chunk * 22u;
    let h = word_{{b}}(block + 2u);
    let qs = words4_{{b}}(block + 6u);
    let nibble = vec4u(0x0f0f0f0fu);
    let shifts = vec4u(0u, 4u, 8u, 12u);
    let low = (qs & nibble) | (spread(vec4u(h) >> shifts) << vec4u(4u));
    let high = ((qs >> vec4u(4u)) & nibble) | (spread(vec4u(h >> 16u) >> shifts) << vec4u(4u));
    return Quants(less(low, 16u), less(high, 16u), vec2f(half_{{b}}(block)), vec2f());
}
