// 2 bits less 1, one scale: {qs[64], d}. Of each half block chunk j of 4 has bits 2j of 32 bytes.
fn unpack_tq2_0_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 66u;
    let qs = block + ((chunk >> 2u) & 1u) * 32u;
    let shift = vec4u((chunk & 3u) * 2u);
    let pair = vec4u(0x03030303u);
    return Quants(less((words4_{{b}}(qs) >> shift) & pair, 1u),
        less((words4_{{b}}(qs + 16u) >> shift) & pair, 1u), vec2f(half_{{b}}(block + 64u)), vec2f());
}
