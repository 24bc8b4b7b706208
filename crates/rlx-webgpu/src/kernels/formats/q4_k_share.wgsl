// 64 weights of the row at byte `row` of {{b}} and their product with 64 elements of x: 32 bytes of a block of
// nine quads, {d, dmin, scales[12]} and qs[128], whose nibbles are two groups of 32.
struct Share_q4_k_{{b}} { head: vec4u, low: vec4u, high: vec4u, j: u32 }
fn take_q4_k_{{b}}(row: u32, share: u32) -> Share_q4_k_{{b}} {
    let block = (row >> 4u) + (share >> 2u) * 9u;
    let j = share & 3u;
    return Share_q4_k_{{b}}({{b}}[block], {{b}}[block + 1u + j * 2u], {{b}}[block + 2u + j * 2u], j);
}
fn dot_q4_k_{{b}}(w: Share_q4_k_{{b}}, x: X) -> f32 {
    // The 6-bit scales and minima of groups 2j and 2j + 1, a byte each.
    let words = w.head.yzw >> vec3u((w.j & 1u) * 16u);
    let early = w.j < 2u;
    let scales = select((words.z & 0x0f0fu) | ((words.x >> 2u) & 0x3030u), words.x & 0x3f3fu, early);
    let minima = select(((words.z >> 4u) & 0x0f0fu) | ((words.y >> 2u) & 0x3030u), words.y & 0x3f3fu, early);
    let nibble = vec4u(0x0f0f0f0fu);
    let first = dots_of_nibbles(w.low & nibble, x.a) + dots_of_nibbles(w.high & nibble, x.b);
    let second = dots_of_nibbles((w.low >> vec4u(4u)) & nibble, x.c)
        + dots_of_nibbles((w.high >> vec4u(4u)) & nibble, x.d);
    let product = vec2<Sum>(vec2u(scales, scales >> 8u) & vec2u(255u)) * vec2<Sum>(first, second);
    let least = vec2<Sum>(vec2u(minima, minima >> 8u) & vec2u(255u)) * x.sums;
    let dm = unpack2x16float(w.head.x);
    return dot(x.scale, dm.x * vec2f(product) - dm.y * vec2f(least));
}
