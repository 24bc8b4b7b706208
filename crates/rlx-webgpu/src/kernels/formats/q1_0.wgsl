// A sign bit, one scale for 128: {d, qs[16]}, a set bit is d, the other -d.
fn unpack_q1_0_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 2u) * 18u;
    let bits = vec4u(word_{{b}}(block + 2u + (chunk & 3u) * 4u));
    let shifts = vec4u(0u, 4u, 8u, 12u);
    return Quants(less(spread(bits >> shifts) << vec4u(1u), 1u),
        less(spread(bits >> (shifts + vec4u(16u))) << vec4u(1u), 1u), vec2f(half_{{b}}(block)), vec2f());
}
