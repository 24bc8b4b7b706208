// Indices of 9 bits for 4 values, a scale of 4 bits for every 32:
// {d, index[64], ninth bits [8], signs[32], s[4]}.
fn unpack_iq3_s_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 110u;
    let c = chunk & 7u;
    let a = word_{{b}}(block + 2u + 8u * c);
    let b = word_{{b}}(block + 6u + 8u * c);
    let signs = word_{{b}}(block + 74u + 4u * c);
    let h = vec4u(byte_{{b}}(block + 66u + c));
    let s = (byte_{{b}}(block + 106u + (c >> 1u)) >> ((c & 1u) * 4u)) & 15u;
    let ninth = vec4u(256u);
    let i = ((vec4u(a) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(255u)) | ((h << vec4u(8u, 7u, 6u, 5u)) & ninth);
    let j = ((vec4u(b) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(255u)) | ((h << vec4u(4u, 3u, 2u, 1u)) & ninth);
    let low = vec4u({{book}}[i.x], {{book}}[i.y], {{book}}[i.z], {{book}}[i.w]);
    let high = vec4u({{book}}[j.x], {{book}}[j.y], {{book}}[j.z], {{book}}[j.w]);
    return Quants(negated(low, masks(signs & 255u, (signs >> 8u) & 255u)),
        negated(high, masks((signs >> 16u) & 255u, signs >> 24u)),
        vec2f(half_{{b}}(block) * f32(2u * s + 1u)), vec2f());
}
