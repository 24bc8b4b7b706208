// 64 weights of the row at byte `row` of {{b}} and their product with 64 elements of x: two blocks {d, qs[32]},
// which are 17 whole words.
struct Share_q8_0_{{b}} { first: u32, a: vec4u, b: vec4u, c: vec4u, d: vec4u }
fn take_q8_0_{{b}}(row: u32, share: u32) -> Share_q8_0_{{b}} {
    let i = (row >> 2u) + share * 17u;
    return Share_q8_0_{{b}}({{b}}[i],
        vec4u({{b}}[i + 1u], {{b}}[i + 2u], {{b}}[i + 3u], {{b}}[i + 4u]),
        vec4u({{b}}[i + 5u], {{b}}[i + 6u], {{b}}[i + 7u], {{b}}[i + 8u]),
        vec4u({{b}}[i + 9u], {{b}}[i + 10u], {{b}}[i + 11u], {{b}}[i + 12u]),
        vec4u({{b}}[i + 13u], {{b}}[i + 14u], {{b}}[i + 15u], {{b}}[i + 16u]));
}
fn dot_q8_0_{{b}}(w: Share_q8_0_{{b}}, x: X) -> f32 {
    let half = vec4u(16u);
    let a = (vec4u(w.first, w.a.xyz) >> half) | (w.a << half);
    let b = (vec4u(w.a.w, w.b.xyz) >> half) | (w.b << half);
    let scale = vec2f(unpack2x16float(w.first).x, unpack2x16float(w.b.w).y) * x.scale;
    return scale.x * f32(dots(a, x.a) + dots(b, x.b)) + scale.y * f32(dots(w.c, x.c) + dots(w.d, x.d));
}
