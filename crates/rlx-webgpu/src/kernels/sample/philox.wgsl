// random numbers

// The first word of Philox4x32-10 for counter (position, pass_number, 0, 0) under the seed.
fn random(position: u32, pass_number: u32) -> u32 {
    var c = vec4u(position, pass_number, 0u, 0u);
    var k = vec2u(params[SEED_LO], params[SEED_HI]);
    for (var round = 0u; round < 10u; round++) {
        let left = multiply(0xd2511f53u, c.x);
        let right = multiply(0xcd9e8d57u, c.z);
        c = vec4u(right.y ^ c.y ^ k.x, right.x, left.y ^ c.w ^ k.y, left.x);
        k += vec2u(0x9e3779b9u, 0xbb67ae85u);
    }
    return c.x;
}
