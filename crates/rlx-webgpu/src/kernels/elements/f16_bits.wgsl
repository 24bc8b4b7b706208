// The nearest f16, halves to even; from 65520 on infinity. WGSL's own packing may round either way.
fn f16_bits(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let size = bits & 0x7fffffffu;
    if size > 0x7f800000u { return sign | 0x7e00u; }
    if size >= 0x477ff000u { return sign | 0x7c00u; }
    if size < 0x33000000u { return sign; }
    if size < 0x38800000u {
        // Below 2^-14 an f16 counts in units of 2^-24.
        let shift = 126u - (size >> 23u);
        let digits = (size & 0x7fffffu) | 0x800000u;
        let whole = digits >> shift;
        let rest = digits & ((1u << shift) - 1u);
        let half = 1u << (shift - 1u);
        return sign | (whole + select(0u, 1u, rest > half || (rest == half && (whole & 1u) == 1u)));
    }
    return sign | ((size + 0xfffu + ((size >> 13u) & 1u) - 0x38000000u) >> 13u);
}
