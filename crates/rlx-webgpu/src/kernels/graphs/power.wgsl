struct Log2 { digits: u32, exponent: i32, below: bool }
fn log2_of(size: u32) -> Log2 {
    // The base 2 logarithm of a number above 0, given by its bits: digits * 2^exponent, negated where it is
    // below 0. The first of the 32 digits is 1; they are 0 for log2(1). In integers, because b * log2(a) needs
    // more digits than an f32 has. The number is digits * 2^whole / one, between sqrt(1/2) and sqrt(2) of 2^whole.
    let shift = max(countLeadingZeros(size), 8u) - 8u;
    let digits = ((size << shift) & 0x7fffffu) | 0x800000u;
    let less = digits > 0xb504f3u;
    let one = select(0x800000u, 0x1000000u, less);
    let whole = i32(max(size >> 23u, 1u)) - i32(shift) - select(127, 126, less);
    let off = select(digits - one, one - digits, less);
    // The logarithm is (high * 2^32 + low) / 2^scale.
    var high = 0u;
    var low = 0u;
    var scale = 32;
    if off != 0u {
        // log2(digits / one) = q P(q^2) with q = off / (digits + one), by long division: quotient / 2^(31 + more).
        let divisor = digits + one;
        var more = countLeadingZeros(off) - 7u;
        var rest = off << more;
        if rest < divisor {
            rest = rest << 1u;
            more += 1u;
        }
        rest -= divisor;
        var quotient = 1u;
        for (var i = 0u; i < 31u; i += 1u) {
            rest = rest << 1u;
            quotient = quotient << 1u;
            if rest >= divisor {
                rest -= divisor;
                quotient += 1u;
            }
        }
        // q in units of 2^-34, its square in units of 2^-36, P in units of 2^-30.
        let q = quotient >> (more - 3u);
        let square = wide_product(q, q).y;
        var p = 365839043u;
        p = 442031223u + (wide_product(p, square).y >> 4u);
        p = 619638763u + (wide_product(p, square).y >> 4u);
        p = 1032721314u + (wide_product(p, square).y >> 4u);
        p = 3098164009u + (wide_product(p, square).y >> 4u);
        let near = wide_product(quotient, p);
        if whole == 0 {
            high = near.y;
            low = near.x;
            scale = 61 + i32(more);
        } else {
            low = near.y >> (more - 3u);
        }
    }
    if whole != 0 {
        high = u32(abs(whole));
        if low != 0u && (whole < 0) != less {
            high -= 1u;
            low = ~low + 1u;
        }
    }
    let below = select(less, whole < 0, whole != 0);
    if high == 0u {
        let zeros = countLeadingZeros(low);
        return Log2(low << zeros, -i32(zeros) - scale, below);
    }
    let zeros = countLeadingZeros(high);
    return Log2((high << zeros) | ((low >> 1u) >> (31u - zeros)), 32 - i32(zeros) - scale, below);
}
fn exp2_of(whole: i32, part: u32) -> u32 {
    // Bits of the f32 nearest to 2^(whole + part / 2^32); too large is infinity. In units of 2^-31:
    var p = 46477u;
    p = 307145u + wide_product(p, part).y;
    p = 2883937u + wide_product(p, part).y;
    p = 20644974u + wide_product(p, part).y;
    p = 119196685u + wide_product(p, part).y;
    p = 515882179u + wide_product(p, part).y;
    p = 1488522251u + wide_product(p, part).y;
    p = 2147483648u + wide_product(p, part).y;
    let exponent = whole + 127;
    if exponent >= 255 { return 0x7f800000u; }
    if exponent > 0 { return (u32(exponent - 1) << 23u) + (p >> 8u) + ((p >> 7u) & 1u); }
    // A subnormal number, or 0.
    if exponent < -23 { return 0u; }
    return ((p >> u32(8 - exponent)) + 1u) >> 1u;
}
fn power_of(size: u32, times: u32, back: bool) -> u32 {
    // Bits of a number above 0 to a power: both are given by their bits, and the power is negative where `back`.
    let log = log2_of(size);
    if log.digits == 0u || times < 0x800000u { return 0x3f800000u; }
    // times * log2(size) is product / 2^(32 + right).
    let product = wide_product(log.digits, (times << 8u) | 0x80000000u);
    let right = 126 - i32(times >> 23u) - log.exponent;
    if right > 63 { return 0x3f800000u; }
    let below = log.below != back;
    if right < 23 { return select(0x7f800000u, 0u, below); }
    var whole = 0;
    var part = 0u;
    if right < 32 {
        whole = i32(product.y >> u32(right));
        part = (product.x >> u32(right)) | (product.y << u32(32 - right));
    } else {
        part = product.y >> u32(right - 32);
    }
    if below {
        whole = -whole - select(0, 1, part != 0u);
        part = ~part + 1u;
    }
    return exp2_of(whole, part);
}
fn pow_of(a: f32, b: f32) -> f32 {
    // As C's pow: what is not finite is told from the bits.
    let base = bitcast<u32>(a);
    let size = base & 0x7fffffffu;
    let times = bitcast<u32>(b) & 0x7fffffffu;
    if times == 0u || base == 0x3f800000u { return 1.0; }
    if size > 0x7f800000u || times > 0x7f800000u { return bitcast<f32>(base | 0x7fc00000u); }
    // From 2^24 on every float is an even integer; so an infinity counts.
    let exponent = times >> 23u;
    var integer = exponent > 150u;
    var odd = false;
    if exponent >= 127u && exponent <= 150u {
        let digits = (times & 0x7fffffu) | 0x800000u;
        let point = 150u - exponent;
        integer = (digits & ((1u << point) - 1u)) == 0u;
        odd = integer && ((digits >> point) & 1u) == 1u;
    }
    let sign = select(0u, base & 0x80000000u, odd);
    let back = bitcast<u32>(b) >= 0x80000000u;
    if size == 0u || size == 0x7f800000u || times == 0x7f800000u {
        if size == 0x3f800000u { return 1.0; }
        return bitcast<f32>(sign | select(0u, 0x7f800000u, (size > 0x3f800000u) != back));
    }
    if base >= 0x80000000u && !integer { return bitcast<f32>(base | 0x7fc00000u); }
    return bitcast<f32>(sign | power_of(size, times, back));
}
