// Digits of base 3 less 1, five in a byte, one scale: {qs[48], last[4], d}. Chunk c < 5 is digit c of 32
// bytes; then 16 bytes have five runs of 16, and the last four bytes four runs of 4.
fn unpack_tq1_0_{{b}}(row: u32, chunk: u32) -> Quants {
    let block = row + (chunk >> 3u) * 54u;
    let c = chunk & 7u;
    let whole = c < 5u;
    let n = select(2u * (c - 5u), c, whole);
    let first = select(block + 32u, block, whole);
    let second = select(block + 32u, block + 16u, whole);
    var bytes = words4_{{b}}(second);
    var powers = vec4u(power(select(n + 1u, n, whole)));
    if c == 7u {
        bytes = vec4u(word_{{b}}(block + 48u));
        powers = vec4u(1u, 3u, 9u, 27u);
    }
    return Quants(less(trits(words4_{{b}}(first), vec4u(power(n))), 1u), less(trits(bytes, powers), 1u),
        vec2f(half_{{b}}(block + 52u)), vec2f());
}
