// The lowest four bits of each word, one to a byte.
fn spread(bits: vec4u) -> vec4u { return ((bits & vec4u(15u)) * 0x00204081u) & vec4u(0x01010101u); }

// The lowest four pairs of bits of each word, one to a byte.
fn spread2(bits: vec4u) -> vec4u {
    let apart = (bits & vec4u(15u)) | ((bits & vec4u(0xf0u)) << vec4u(12u));
    return (apart | (apart << vec4u(6u))) & vec4u(0x03030303u);
}

// Bytes of 255 for the bits of a, then those of b, 8 each.
fn masks(a: u32, b: u32) -> vec4u { return spread(vec4u(a, a >> 4u, b, b >> 4u)) * 255u; }

// Each byte (0..128), negative where its mask is 255.
fn negated(bytes: vec4u, mask: vec4u) -> vec4u {
    let minus = (vec4u(0x80808080u) - bytes) ^ vec4u(0x80808080u);
    return bytes ^ (mask & (bytes ^ minus));
}

// Eight signs of seven bits: the number of negative ones is even.
fn even(seven: u32) -> u32 {
    let signs = seven & 127u;
    return signs | ((countOneBits(signs) & 1u) << 7u);
}
