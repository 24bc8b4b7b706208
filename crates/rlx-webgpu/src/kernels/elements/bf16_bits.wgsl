// The nearest bf16, halves to even.
fn bf16_bits(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    if (bits & 0x7fffffffu) > 0x7f800000u { return (bits >> 16u) | 0x40u; }
    return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}
