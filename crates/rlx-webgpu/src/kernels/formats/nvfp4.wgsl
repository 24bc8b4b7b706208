// E2M1 floats, an E4M3 scale for every 16 of 64: {e[4], qs[32]}; of 8 bytes low nibbles are the first 8
// elements. Values are twice as large and scales half; a scale's sign is not looked at, 0x7f is 0.
fn scale_nvfp4_{{b}}(byte: u32) -> f32 {
    let e = byte_{{b}}(byte);
    let fraction = f32(e & 7u);
    let exponent = (e >> 3u) & 15u;
    let normal = (1.0 + fraction / 8.0) * bitcast<f32>((exponent + 119u) << 23u);
    return select(select(normal, fraction / 1024.0, exponent == 0u), 0.0, e == 127u);
}
fn half_nvfp4_{{b}}(byte: u32) -> vec4u {
    let qs = vec2u(word_{{b}}(byte), word_{{b}}(byte + 4u));
    return fp4_values(vec4u(qs, qs >> vec2u(4u)));
}
fn unpack_nvfp4_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 1u) * 36u;
    let j = (chunk & 1u) * 2u;
    return Quants(half_nvfp4_{{b}}(block + 4u + 8u * j), half_nvfp4_{{b}}(block + 12u + 8u * j),
        vec2f(scale_nvfp4_{{b}}(block + j), scale_nvfp4_{{b}}(block + j + 1u)), vec2f());
}
