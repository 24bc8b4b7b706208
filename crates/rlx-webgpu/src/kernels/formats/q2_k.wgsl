// 2 bits in groups of 16 with scale and minimum of 4 bits: {scales[16], qs[64], d, dmin}. Of each
// half block chunk j of 4 has bits 2j of 32 bytes.
fn unpack_q2_k_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 84u;
    let dm = unpack2x16float(word_{{b}}(block + 80u));
    let sm = vec2u(byte_{{b}}(block + 2u * (chunk & 7u)), byte_{{b}}(block + 2u * (chunk & 7u) + 1u));
    let qs = block + 16u + ((chunk >> 2u) & 1u) * 32u;
    let shift = vec4u((chunk & 3u) * 2u);
    let pair = vec4u(0x03030303u);
    return Quants((words4_{{b}}(qs) >> shift) & pair, (words4_{{b}}(qs + 16u) >> shift) & pair,
        dm.x * vec2f(sm & vec2u(15u)), -dm.y * vec2f(sm >> vec2u(4u)));
}
