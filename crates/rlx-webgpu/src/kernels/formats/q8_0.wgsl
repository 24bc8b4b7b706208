// 8 bits, one f16 scale: {d, qs[32]}.
fn unpack_q8_0_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + chunk * 34u;
    return Quants(words4_{{b}}(block + 2u), words4_{{b}}(block + 18u), vec2f(half_{{b}}(block)), vec2f());
}
