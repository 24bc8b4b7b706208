// A cache of q4_0 at word `start` of {{b}}: block n is the halves of words 9 n to 9 n + 8, its scale first. The low halves
// of its 16 bytes are its first 16 elements plus 8, the high halves the others.
fn scale_of_{{b}}(start: u32, block: u32) -> f32 {
    let half = block * 9u;
    return unpack2x16float({{b}}[start + half / 2u] >> (half % 2u * 16u)).x;
}
// Codes in the low halves of four bytes, less 8 and with their sign; the top bit keeps borrows within a byte.
fn codes_of_{{b}}(bytes: vec2u, block_part: u32) -> vec2u {
    let codes = (bytes >> vec2u(block_part * 4u)) & vec2u(0x0f0f0f0fu);
    return ((codes | vec2u(0x80808080u)) - vec2u(0x08080808u)) ^ vec2u(0x80808080u);
}
// Elements 2 i and 2 i + 1.
fn pair_of_{{b}}(start: u32, i: u32) -> vec2f {
    let half = i / 16u * 9u + 1u + i % 8u;
    let bytes = vec2u({{b}}[start + half / 2u] >> (half % 2u * 16u), 0u);
    let bits = vec2u(codes_of_{{b}}(bytes, i / 8u % 2u).x);
    return scale_of_{{b}}(start, i / 16u) * vec2f(bitcast<vec2i>(bits << vec2u(24u, 16u)) >> vec2u(24u));
}
// Elements 4 i to 4 i + 3: signed bytes, and the bits of their scale.
fn four_of_{{b}}(start: u32, i: u32) -> vec2u {
    let half = i / 8u * 9u + 1u + i % 4u * 2u;
    let at = start + half / 2u;
    let shift = half % 2u * 16u;
    // The double shift gives 0, not the word, for a shift of 32.
    let bytes = vec2u(({{b}}[at] >> shift) | (({{b}}[at + 1u] << 1u) << (31u - shift)), 0u);
    return vec2u(codes_of_{{b}}(bytes, i / 4u % 2u).x, bitcast<u32>(scale_of_{{b}}(start, i / 8u)));
}
// Elements 8 i to 8 i + 7: signed bytes, and the bits of their scale.
fn eight_of_{{b}}(start: u32, i: u32) -> vec3u {
    let half = i / 4u * 9u + 1u + i % 2u * 4u;
    let at = start + half / 2u;
    let shift = half % 2u * 16u;
    let low = vec2u({{b}}[at], {{b}}[at + 1u]);
    let high = vec2u(low.y, {{b}}[at + 2u]);
    let bytes = (low >> vec2u(shift)) | ((high << vec2u(1u)) << vec2u(31u - shift));
    return vec3u(codes_of_{{b}}(bytes, i / 2u % 2u), bitcast<u32>(scale_of_{{b}}(start, i / 4u)));
}
