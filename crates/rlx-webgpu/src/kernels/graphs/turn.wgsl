fn two_over_pi(i: u32) -> u32 {
    // Binary digits of 2 / pi behind the point, 32 at a time, after 32 zeros.
    switch i {
        case 1u: { return 0xa2f9836eu; }
        case 2u: { return 0x4e441529u; }
        case 3u: { return 0xfc2757d1u; }
        case 4u: { return 0xf534ddc0u; }
        case 5u: { return 0xdb629599u; }
        case 6u: { return 0x3c439041u; }
        case 7u: { return 0xfe5163abu; }
        default: { return 0u; }
    }
}
struct Turn { quarter: u32, rest: f32 }
fn turn_of(x: f32) -> Turn {
    // |x| is quarter * pi / 2 + rest, quarter modulo 4 and |rest| at most pi / 4. A product of integers: no
    // rounding can be moved past another.
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    if bits < 0x3f490fdau { return Turn(0u, abs(x)); }
    // |x| = digits * 2^(exponent - 150); bits of 2 / pi that make multiples of 4 are left out.
    let digits = (bits & 0x7fffffu) | 0x800000u;
    let first = (bits >> 23u) + 32u - 152u;
    let word = first / 32u;
    let shift = first % 32u;
    let w0 = (two_over_pi(word) << shift) | ((two_over_pi(word + 1u) >> 1u) >> (31u - shift));
    let w1 = (two_over_pi(word + 1u) << shift) | ((two_over_pi(word + 2u) >> 1u) >> (31u - shift));
    let w2 = (two_over_pi(word + 2u) << shift) | ((two_over_pi(word + 3u) >> 1u) >> (31u - shift));
    let p2 = wide_product(w2, digits).y;
    let p1 = wide_product(w1, digits);
    let low = p1.x + p2;
    let high = digits * w0 + p1.y + select(0u, 1u, low < p2);
    // Two bits of quarters, then what is left of one, which may count back from the next.
    let quarter = (high + 0x20000000u) >> 30u;
    let left = high - (quarter << 30u);
    let back = left >= 0x80000000u;
    let size_low = select(low, ~low + 1u, back);
    let size_high = select(left, ~left + select(0u, 1u, low == 0u), back);
    let size = f32(size_high) * 4294967296.0 + f32(size_low);
    // 2^-62 * pi / 2.
    let rest = size * 3.40612158e-19;
    return Turn(quarter & 3u, select(rest, -rest, back));
}
fn sine_near(x: f32) -> f32 {
    let s = x * x;
    var p = s / 362880.0 - 1.0 / 5040.0;
    p = p * s + 1.0 / 120.0;
    p = p * s - 1.0 / 6.0;
    return x + x * s * p;
}
fn cosine_near(x: f32) -> f32 {
    let s = x * x;
    var p = 1.0 / 40320.0 - s / 3628800.0;
    p = p * s - 1.0 / 720.0;
    p = p * s + 1.0 / 24.0;
    p = p * s - 0.5;
    return 1.0 + s * p;
}
fn sin_of(x: f32) -> f32 {
    let t = turn_of(x);
    let y = select(sine_near(t.rest), cosine_near(t.rest), (t.quarter & 1u) == 1u);
    return select(y, -y, (t.quarter >= 2u) != (x < 0.0));
}
fn cos_of(x: f32) -> f32 {
    let t = turn_of(x);
    let y = select(cosine_near(t.rest), sine_near(t.rest), (t.quarter & 1u) == 1u);
    return select(y, -y, t.quarter == 1u || t.quarter == 2u);
}
fn tan_of(x: f32) -> f32 {
    let t = turn_of(x);
    let s = sine_near(t.rest);
    let c = cosine_near(t.rest);
    let y = select(s / c, -c / s, (t.quarter & 1u) == 1u);
    return select(y, -y, x < 0.0);
}
