// The same where {{b}} is an array of 16 bytes: of 16 bytes at any byte two loads instead of five.
fn at_{{b}}(i: u32) -> u32 { return {{b}}[i >> 2u][i & 3u]; }
fn word_{{b}}(byte: u32) -> u32 {
    let i = byte >> 2u;
    return (at_{{b}}(i) >> ((byte & 3u) * 8u)) | ((at_{{b}}(i + 1u) << 1u) << (31u - (byte & 3u) * 8u));
}
fn half_{{b}}(byte: u32) -> f32 {
    return unpack2x16float(at_{{b}}(byte >> 2u) >> ((byte & 2u) * 8u)).x;
}
fn byte_{{b}}(byte: u32) -> u32 {
    return (at_{{b}}(byte >> 2u) >> ((byte & 3u) * 8u)) & 255u;
}
fn quad_{{b}}(byte: u32) -> vec4u { return {{b}}[byte >> 4u]; }
fn words4_{{b}}(byte: u32) -> vec4u {
    let a = {{b}}[byte >> 4u];
    let b = {{b}}[(byte >> 4u) + 1u];
    let two = (byte & 8u) != 0u;
    let one = (byte & 4u) != 0u;
    let even = select(a, vec4u(a.zw, b.xy), two);
    let next = select(b.xy, b.zw, two);
    let low = select(even, vec4u(even.yzw, next.x), one);
    let high = vec4u(low.yzw, select(next.x, next.y, one));
    let shift = (byte & 3u) * 8u;
    return (low >> vec4u(shift)) | ((high << vec4u(1u)) << vec4u(31u - shift));
}
