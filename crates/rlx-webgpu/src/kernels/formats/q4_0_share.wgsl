// 64 weights of the row at byte `row` of {{b}} and their product with 64 elements of x: two blocks {d, qs[16]},
// which are nine whole words; nibbles less 8, low ones are elements 0..16, high ones 16..32.
struct Share_q4_0_{{b}} { first: u32, a: vec4u, b: vec4u }
fn take_q4_0_{{b}}(row: u32, share: u32) -> Share_q4_0_{{b}} {
    let i = (row >> 2u) + share * 9u;
    return Share_q4_0_{{b}}({{b}}[i],
        vec4u({{b}}[i + 1u], {{b}}[i + 2u], {{b}}[i + 3u], {{b}}[i + 4u]),
        vec4u({{b}}[i + 5u], {{b}}[i + 6u], {{b}}[i + 7u], {{b}}[i + 8u]));
}
fn dot_q4_0_{{b}}(w: Share_q4_0_{{b}}, x: X) -> f32 {
    let half = vec4u(16u);
    let nibble = vec4u(0x0f0f0f0fu);
    let a = (vec4u(w.first, w.a.xyz) >> half) | (w.a << half);
    let scale = vec2f(unpack2x16float(w.first).x, unpack2x16float(w.a.w).y) * x.scale;
    let first = dots(less(a & nibble, 8u), x.a) + dots(less((a >> vec4u(4u)) & nibble, 8u), x.b);
    let second = dots(less(w.b & nibble, 8u), x.c) + dots(less((w.b >> vec4u(4u)) & nibble, 8u), x.d);
    return scale.x * f32(first) + scale.y * f32(second);
}
