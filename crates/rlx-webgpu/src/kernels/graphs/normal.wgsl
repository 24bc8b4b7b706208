fn normal(two: vec2u, second: bool) -> f32 {
    // -ln(n / 2^24) for n = word / 2^8 + 1, of n = f * 2^e with f between sqrt(1/2) and sqrt(2): ln f is
    // 2 atanh(s) with s = (f - 1) / (f + 1), whose numerator is exact. Near 1 nothing is subtracted.
    let n = (two.x >> 8u) + 1u;
    let top = 31u - countLeadingZeros(n);
    var f = f32(n) / f32(1u << top);
    var e = f32(top);
    if f > 1.4142135 {
        f *= 0.5;
        e += 1.0;
    }
    let s = (f - 1.0) / (f + 1.0);
    let q = s * s;
    let p = (((q / 11.0 + 1.0 / 9.0) * q + 1.0 / 7.0) * q + 0.2) * q + 1.0 / 3.0;
    let log = (24.0 - e) * 0.6931472 - 2.0 * (s + s * q * p);
    let radius = sqrt(2.0 * log);
    // The turn's nearest quarter, in integers, and what is left of it, at most an eighth to either side.
    let quarter = ((two.y >> 8u) + 0x200000u) >> 22u;
    let x = f32(i32(two.y >> 8u) - i32(quarter << 22u)) * 3.7450702829238413e-7;
    let xx = x * x;
    let sine = x + x * xx * (((xx / 362880.0 - 1.0 / 5040.0) * xx + 1.0 / 120.0) * xx - 1.0 / 6.0);
    let cosine = 1.0 + xx * (((xx / 40320.0 - 1.0 / 720.0) * xx + 1.0 / 24.0) * xx - 0.5);
    // The sine is the cosine of a quarter less.
    let turned = (quarter + select(0u, 3u, second)) & 3u;
    let value = select(cosine, sine, (turned & 1u) != 0u);
    return radius * select(value, -value, turned == 1u || turned == 2u);
}
