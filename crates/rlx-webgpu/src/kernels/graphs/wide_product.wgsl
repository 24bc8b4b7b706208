fn wide_product(a: u32, b: u32) -> vec2u {
    // Low and high words of a * b, by halves.
    let low = (a & 0xffffu) * (b & 0xffffu);
    let cross = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let other = (a & 0xffffu) * (b >> 16u) + (cross & 0xffffu);
    return vec2u((low & 0xffffu) | (other << 16u), (a >> 16u) * (b >> 16u) + (cross >> 16u) + (other >> 16u));
}
