// E2M1 floats under a power of two: {e, qs[16]}, nibbles as in q4_0. Values are twice as large, so the
// scale is 2^(e - 128), whose two smallest are denormal.
fn unpack_mxfp4_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + chunk * 17u;
    let e = byte_{{b}}(block);
    let scale = bitcast<f32>(select((max(e, 1u) - 1u) << 23u, 0x00200000u << e, e < 2u));
    let qs = words4_{{b}}(block + 1u);
    return Quants(fp4_values(qs), fp4_values(qs >> vec4u(4u)), vec2f(scale), vec2f());
}
