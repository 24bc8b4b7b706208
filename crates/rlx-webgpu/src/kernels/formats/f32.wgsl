// 32 f32 of the row at byte `row` of {{b}}.
fn decode_f32_{{b}}(row: u32, chunk: u32) -> Weights {
    let i = (row >> 2u) + chunk * 32u;
    return Weights(
        quad_f32_{{b}}(i), quad_f32_{{b}}(i + 4u), quad_f32_{{b}}(i + 8u), quad_f32_{{b}}(i + 12u),
        quad_f32_{{b}}(i + 16u), quad_f32_{{b}}(i + 20u), quad_f32_{{b}}(i + 24u), quad_f32_{{b}}(i + 28u));
}
fn quad_f32_{{b}}(i: u32) -> vec4f {
    return bitcast<vec4f>(vec4u({{b}}[i], {{b}}[i + 1u], {{b}}[i + 2u], {{b}}[i + 3u]));
}
