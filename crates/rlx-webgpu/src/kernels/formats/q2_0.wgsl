// 2 bits less 1, one scale for 64: {d, qs[16]}, pairs of bits in order.
fn unpack_q2_0_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 1u) * 18u;
    let at = block + 2u + (chunk & 1u) * 8u;
    let shifts = vec4u(0u, 8u, 16u, 24u);
    return Quants(less(spread2(vec4u(word_{{b}}(at)) >> shifts), 1u),
        less(spread2(vec4u(word_{{b}}(at + 4u)) >> shifts), 1u), vec2f(half_{{b}}(block)), vec2f());
}
