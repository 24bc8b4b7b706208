fn words(block: u32) -> vec4u {
    // The four words of Philox4x32-10 for the key's offset + block, under the key's seed.
    let low = bits_key(2u) + block;
    var c = vec4u(low, bits_key(3u) + select(0u, 1u, low < block), 0u, 0u);
    var k = vec2u(bits_key(0u), bits_key(1u));
    for (var round = 0u; round < 10u; round++) {
        let left = wide_product(0xd2511f53u, c.x);
        let right = wide_product(0xcd9e8d57u, c.z);
        c = vec4u(right.y ^ c.y ^ k.x, right.x, left.y ^ c.w ^ k.y, left.x);
        k += vec2u(0x9e3779b9u, 0xbb67ae85u);
    }
    return c;
}
