// logits of f32 as integers, and weights of distances

// Orders f32 bits as integers: no comparison of floats meets a NaN or an infinity, which WGSL
// lets an implementation assume away. 0 for NaN and -inf, which are never taken.
fn key_of(bits: vec4u) -> vec4u {
    let never = ((bits & vec4u(0x7fffffffu)) > vec4u(0x7f800000u)) | (bits == vec4u(0xff800000u));
    let ordered = select(bits | vec4u(0x80000000u), ~bits, bits > vec4u(0x80000000u));  // -0 and 0 alike
    return select(ordered, vec4u(0u), never);
}

// The logits of keys, brought to +-2^126 so that a difference of two is finite.
fn logits_of(keys: vec4u) -> vec4f {
    let near = clamp(keys, vec4u(0x017fffffu), vec4u(0xfe800000u));
    return bitcast<vec4f>(select(~near, near ^ vec4u(0x80000000u), near >= vec4u(0x80000000u)));
}

// floor(a * fraction / 2^16) for fraction < 2^16 and a < 2^31
fn scaled(a: u32, fraction: u32) -> u32 {
    return (a >> 16u) * fraction + (((a & 0xffffu) * fraction) >> 16u);
}

// 2^31 * 2^(-q / 2^16); the polynomial is that of rlx-core's sample/weight.rs.
fn weight(q: u32) -> u32 {
    if q >= FAR { return 0u; }
    let fraction = q & 0xffffu;
    var sum = 19794886u - scaled(2034856u, fraction);
    sum = 118784456u - scaled(sum, fraction);
    sum = 515800015u - scaled(sum, fraction);
    sum = 1488517413u - scaled(sum, fraction);
    sum = 2147483648u - scaled(sum, fraction);
    return sum >> (q >> 16u);
}
