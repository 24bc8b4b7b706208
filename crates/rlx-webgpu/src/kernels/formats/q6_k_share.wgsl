// 64 weights of the row at byte `row` of {{b}} and their product with 64 elements of x: of a block {ql[128],
// qh[64], scales[16], d} of 210 bytes, half 2, the low or the high nibbles of 64 bytes of ql, with two bits
// each of 32 bytes of qh; a scale for every 16. Blocks lie at multiples of 2 bytes.
struct Share_q6_k_{{b}} {
    a: vec4u, b: vec4u, c: vec4u, d: vec4u, h0: vec4u, h1: vec4u, scales: u32, scale: f32, shift: u32,
}
fn take_q6_k_{{b}}(row: u32, share: u32) -> Share_q6_k_{{b}} {
    let i = share >> 2u;
    {{at}}
    let half = (share >> 1u) & 1u;
    let high = share & 1u;
    let l = ql + half * 64u;
    let h = qh + half * 32u;
    return Share_q6_k_{{b}}(
        {{words}}_{{b}}(l), {{words}}_{{b}}(l + 16u), {{words}}_{{b}}(l + 32u), {{words}}_{{b}}(l + 48u),
        {{words}}_{{b}}(h), {{words}}_{{b}}(h + 16u), word_{{b}}(s + half * 8u + high * 4u), half_{{b}}(d), high * 4u);
}
fn dot_q6_k_{{b}}(w: Share_q6_k_{{b}}, x: X) -> f32 {
    let shift = vec4u(w.shift);
    let nibble = vec4u(0x0f0f0f0fu);
    let pair = vec4u(0x30303030u);
    let h0 = w.h0 >> shift;
    let h1 = w.h1 >> shift;
    let a = ((w.a >> shift) & nibble) | ((h0 << vec4u(4u)) & pair);
    let b = ((w.b >> shift) & nibble) | ((h1 << vec4u(4u)) & pair);
    let c = ((w.c >> shift) & nibble) | ((h0 << vec4u(2u)) & pair);
    let d = ((w.d >> shift) & nibble) | ((h1 << vec4u(2u)) & pair);
    let sums = vec4<Sum>(dots(less(a, 32u), x.a), dots(less(b, 32u), x.b),
        dots(less(c, 32u), x.c), dots(less(d, 32u), x.d));
    let products = vec4<Sum>(signed(w.scales)) * sums;
    return w.scale * dot(x.scale, vec2f(products.xz + products.yw));
}
