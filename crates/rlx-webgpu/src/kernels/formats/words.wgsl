// Words of {{b}} at any byte, halves at multiples of 2: few blocks are whole words long, so many
// words lie across two. The double shift gives 0, not the word, for a shift of 32.
fn at_{{b}}(i: u32) -> u32 { return {{b}}[i]; }
fn join_{{b}}(i: u32, shift: u32) -> u32 {
    return ({{b}}[i] >> shift) | (({{b}}[i + 1u] << 1u) << (31u - shift));
}
fn word_{{b}}(byte: u32) -> u32 {
    return join_{{b}}(byte >> 2u, (byte & 3u) * 8u);
}
fn half_{{b}}(byte: u32) -> f32 {
    return unpack2x16float({{b}}[byte >> 2u] >> ((byte & 2u) * 8u)).x;
}
fn byte_{{b}}(byte: u32) -> u32 {
    return ({{b}}[byte >> 2u] >> ((byte & 3u) * 8u)) & 255u;
}
// 16 bytes at a multiple of 16.
fn quad_{{b}}(byte: u32) -> vec4u {
    let i = byte >> 2u;
    return vec4u({{b}}[i], {{b}}[i + 1u], {{b}}[i + 2u], {{b}}[i + 3u]);
}
fn words4_{{b}}(byte: u32) -> vec4u {
    let i = byte >> 2u;
    let shift = (byte & 3u) * 8u;
    let low = vec4u({{b}}[i], {{b}}[i + 1u], {{b}}[i + 2u], {{b}}[i + 3u]);
    let high = vec4u(low.yzw, {{b}}[i + 4u]);
    return (low >> vec4u(shift)) | ((high << vec4u(1u)) << vec4u(31u - shift));
}
