// Digits of base 3, five in a byte.
fn trits(bytes: vec4u, power: vec4u) -> vec4u {
    // Digit n of b, a fraction of 256, is the integer part of 3 (3^n b mod 1); two bytes a product.
    let lanes = vec4u(0x00ff00ffu);
    let low = ((((bytes & lanes) * power) & lanes) * 3u) >> vec4u(8u);
    let high = (((((bytes >> vec4u(8u)) & lanes) * power) & lanes) * 3u) >> vec4u(8u);
    return (low & lanes) | ((high & lanes) << vec4u(8u));
}
fn power(n: u32) -> u32 { return select(vec4u(1u, 3u, 9u, 27u)[n & 3u], 81u, n == 4u); }
