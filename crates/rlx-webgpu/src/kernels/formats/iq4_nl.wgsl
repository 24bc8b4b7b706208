// 4 bits that stand for 16 values, one scale: {d, qs[16]}, nibbles as in q4_0.
fn unpack_iq4_nl_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + chunk * 18u;
    let qs = words4_{{b}}(block + 2u);
    return Quants(iq4_values(qs), iq4_values(qs >> vec4u(4u)), vec2f(half_{{b}}(block)), vec2f());
}
