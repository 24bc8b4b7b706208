fn mod_of(a: f32, b: f32) -> f32 {
    // Exact. Long division of the integers that hold the digits, eight binary digits at a time: a rounded
    // quotient of floats may be one too large.
    let sign = bitcast<u32>(a) & 0x80000000u;
    let size = bitcast<u32>(a) & 0x7fffffffu;
    let by = bitcast<u32>(b) & 0x7fffffffu;
    // An infinity or NaN has no remainder; nor has anything by 0 or by NaN.
    if size >= 0x7f800000u || by > 0x7f800000u || by == 0u { return bitcast<f32>(sign | 0x7fc00000u); }
    if size < by { return a; }
    // Both are digits * 2^(exponent - 150); a subnormal number has the exponent 1 and fewer digits.
    let exponent = max(by >> 23u, 1u);
    let divisor = select((by & 0x7fffffu) | 0x800000u, by, by < 0x800000u);
    var rest = select((size & 0x7fffffu) | 0x800000u, size, size < 0x800000u) % divisor;
    var left = max(size >> 23u, 1u) - exponent;
    while left > 0u && rest > 0u {
        let digits = min(left, 8u);
        rest = (rest << digits) % divisor;
        left -= digits;
    }
    if rest == 0u { return bitcast<f32>(sign); }
    let shift = min(countLeadingZeros(rest) - 8u, exponent - 1u);
    return bitcast<f32>(sign | ((rest << shift) + ((exponent - shift - 1u) << 23u)));
}
