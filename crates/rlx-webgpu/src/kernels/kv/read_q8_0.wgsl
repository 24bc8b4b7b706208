// A cache of q8_0 at word `start` of {{b}}: block n is the halves of words 17 n to 17 n + 16, its scale first.
fn scale_of_{{b}}(start: u32, block: u32) -> f32 {
    let half = block * 17u;
    return unpack2x16float({{b}}[start + half / 2u] >> (half % 2u * 16u)).x;
}
// Elements 2 i and 2 i + 1.
fn pair_of_{{b}}(start: u32, i: u32) -> vec2f {
    let half = i / 16u * 17u + 1u + i % 16u;
    let bits = vec2u({{b}}[start + half / 2u] >> (half % 2u * 16u));
    return scale_of_{{b}}(start, i / 16u) * vec2f(bitcast<vec2i>(bits << vec2u(24u, 16u)) >> vec2u(24u));
}
// Elements 4 i to 4 i + 3: their bytes, and the bits of their scale.
fn four_of_{{b}}(start: u32, i: u32) -> vec2u {
    let half = i / 8u * 17u + 1u + i % 8u * 2u;
    let at = start + half / 2u;
    let shift = half % 2u * 16u;
    // The double shift gives 0, not the word, for a shift of 32.
    let bytes = ({{b}}[at] >> shift) | (({{b}}[at + 1u] << 1u) << (31u - shift));
    return vec2u(bytes, bitcast<u32>(scale_of_{{b}}(start, i / 8u)));
}
// Elements 8 i to 8 i + 7: their bytes, and the bits of their scale.
fn eight_of_{{b}}(start: u32, i: u32) -> vec3u {
    let half = i / 4u * 17u + 1u + i % 4u * 4u;
    let at = start + half / 2u;
    let shift = half % 2u * 16u;
    let low = vec2u({{b}}[at], {{b}}[at + 1u]);
    let high = vec2u(low.y, {{b}}[at + 2u]);
    // The double shift gives 0, not the word, for a shift of 32.
    let bytes = (low >> vec2u(shift)) | ((high << vec2u(1u)) << vec2u(31u - shift));
    return vec3u(bytes, bitcast<u32>(scale_of_{{b}}(start, i / 4u)));
}
