// 64 weights of the row at byte `row` of {{b}} times 64 elements of x: of a block {ql[128], qh[64],
// scales[16], d} of 210 bytes, half 2, the low or the high nibbles of 64 bytes of ql, with two bits
// each of 32 bytes of qh; a scale for every 16. Blocks lie at multiples of 2 bytes.
fn dot_q6_k_{{b}}(row: u32, share: u32, x: X) -> f32 {
    let block = row + (share >> 2u) * 210u;
    let half = (share >> 1u) & 1u;
    let high = share & 1u;
    let ql = block + half * 64u;
    let qh = block + 128u + half * 32u;
    let s = block + 192u + half * 8u + high * 4u;
    let shift = vec4u(high * 4u);
    let nibble = vec4u(0x0f0f0f0fu);
    let pair = vec4u(0x30303030u);
    let h0 = words4_{{b}}(qh) >> shift;
    let h1 = words4_{{b}}(qh + 16u) >> shift;
    let a = ((words4_{{b}}(ql) >> shift) & nibble) | ((h0 << vec4u(4u)) & pair);
    let b = ((words4_{{b}}(ql + 16u) >> shift) & nibble) | ((h1 << vec4u(4u)) & pair);
    let c = ((words4_{{b}}(ql + 32u) >> shift) & nibble) | ((h0 << vec4u(2u)) & pair);
    let d = ((words4_{{b}}(ql + 48u) >> shift) & nibble) | ((h1 << vec4u(2u)) & pair);
    let sums = vec4i(dots(less(a, 32u), x.a), dots(less(b, 32u), x.b),
        dots(less(c, 32u), x.c), dots(less(d, 32u), x.d));
    let products = signed(word_{{b}}(s)) * sums;
    return half_{{b}}(block + 208u) * dot(x.scale, vec2f(products.xz + products.yw));
}
