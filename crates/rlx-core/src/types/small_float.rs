//! Floats of 4, 6 and 8 bits (OCP 8-bit Floating Point and Microscaling Formats, v1.0), and the two
//! of 8 bits without infinities and negative zero (arXiv:2206.02915).

use crate::math;

/// A small float; a code stands in the low bits of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SmallFloat {
    /// 4 bits of exponent, 3 of fraction: up to 448, no infinity, one NaN of each sign.
    F8E4M3,
    /// 5 bits of exponent, 2 of fraction: up to 57,344, with infinities and NaN.
    F8E5M2,
    /// 2 bits of exponent, 3 of fraction: up to 7.5, all finite.
    F6E2M3,
    /// 3 bits of exponent, 2 of fraction: up to 28, all finite.
    F6E3M2,
    /// 2 bits of exponent, 1 of fraction: up to 6, all finite.
    F4E2M1,
    /// 4 bits of exponent, 3 of fraction: up to 240; what would be -0 is the one NaN.
    F8E4M3Fnuz,
    /// 5 bits of exponent, 2 of fraction: up to 57,344; what would be -0 is the one NaN.
    F8E5M2Fnuz,
}

/// Name, bits of exponent and of fraction, bias, code of the largest value, code of a NaN; it has a
/// sign of its own but for [`MINUS_ZERO`].
type Row = (SmallFloat, &'static str, i32, i32, i32, u8, Option<u8>);

/// The code of -0 where that is the NaN.
const MINUS_ZERO: u8 = 0x80;

impl SmallFloat {
    const ALL: [Row; 7] = [
        (SmallFloat::F8E4M3, "f8e4m3", 4, 3, 7, 0x7e, Some(0x7f)),
        (SmallFloat::F8E5M2, "f8e5m2", 5, 2, 15, 0x7b, Some(0x7e)),
        (SmallFloat::F6E2M3, "f6e2m3", 2, 3, 1, 0x1f, None),
        (SmallFloat::F6E3M2, "f6e3m2", 3, 2, 3, 0x1f, None),
        (SmallFloat::F4E2M1, "f4e2m1", 2, 1, 1, 0x07, None),
        (SmallFloat::F8E4M3Fnuz, "f8e4m3fnuz", 4, 3, 8, 0x7f, Some(MINUS_ZERO)),
        (SmallFloat::F8E5M2Fnuz, "f8e5m2fnuz", 5, 2, 16, 0x7f, Some(MINUS_ZERO)),
    ];

    fn row(self) -> &'static Row {
        &Self::ALL[self as usize]
    }

    /// Every format.
    pub fn all() -> impl Iterator<Item = SmallFloat> {
        Self::ALL.iter().map(|row| row.0)
    }

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Bits of a code, sign included.
    pub fn bits(self) -> u32 {
        let row = self.row();
        (1 + row.2 + row.3) as u32
    }

    /// The largest finite value.
    pub fn max(self) -> f64 {
        self.decode(self.row().5)
    }

    /// The exponent of the largest finite value: 8 for 448.
    pub fn max_exponent(self) -> i32 {
        exponent(self.max())
    }

    /// The value of a code, exactly; bits above the format's are ignored.
    pub fn decode(self, code: u8) -> f64 {
        let &(_, _, exponents, fractions, bias, largest, nan) = self.row();
        let sign = 1u8 << (exponents + fractions);
        let magnitude = code & (sign - 1);
        if nan == Some(MINUS_ZERO) && code == MINUS_ZERO {
            return f64::NAN;
        }
        let value = match nan {
            Some(_) if magnitude > largest => {
                // Above the largest: infinity where the fraction is 0 and the format has one.
                let infinite = self == SmallFloat::F8E5M2 && magnitude == 0x7c;
                if infinite { f64::INFINITY } else { f64::NAN }
            }
            _ => {
                let (e, f) =
                    (i32::from(magnitude) >> fractions, i32::from(magnitude) % (1 << fractions));
                let f = if e == 0 { f } else { f + (1 << fractions) };
                f64::from(f) * power_of_two(e.max(1) - bias - fractions)
            }
        };
        if code & sign == 0 { value } else { -value }
    }

    /// The code of the nearest value, ties to even; what is larger than the largest becomes the
    /// largest, infinities too. NaN stays NaN where there is one and becomes the largest elsewhere.
    pub fn encode(self, x: f64) -> u8 {
        let &(_, _, exponents, fractions, bias, largest, nan) = self.row();
        let sign = if x.is_sign_negative() { 1u8 << (exponents + fractions) } else { 0 };
        if x.is_nan() {
            return sign | nan.unwrap_or(largest);
        }
        let x = x.abs();
        if x >= self.max() {
            return sign | largest;
        }
        let e = exponent(x).max(1 - bias);
        // In units of the last place: below 2^(fractions + 1), and the carry of a rounding up
        // runs into the exponent by itself.
        let units = math::rint(x * power_of_two(fractions - e)) as i32;
        let code = ((e + bias - 1) << fractions) + units;
        if code == 0 && nan == Some(MINUS_ZERO) { 0 } else { sign | (code as u8).min(largest) }
    }
}

/// `floor(log2(x))` of a positive normal number; -1023 for 0 and what is smaller.
pub fn exponent(x: f64) -> i32 {
    (x.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

/// `2^e` for e of -1022 to 1023; out of that range, the nearer end.
pub fn power_of_two(e: i32) -> f64 {
    f64::from_bits(((e.clamp(-1022, 1023) + 1023) as u64) << 52)
}

/// The code of the scale `2^e` (E8M0), e limited to -127..=127.
pub fn encode_e8m0(e: i32) -> u8 {
    (e.clamp(-127, 127) + 127) as u8
}

/// The scale of an E8M0 code: `2^(code - 127)`, NaN for 255.
pub fn decode_e8m0(code: u8) -> f64 {
    if code == 255 { f64::NAN } else { power_of_two(i32::from(code) - 127) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_and_the_smallest_values_are_the_standards() {
        let ends = [
            (SmallFloat::F8E4M3, 448.0, 0.001_953_125, 8),
            (SmallFloat::F8E5M2, 57344.0, 0.000_015_258_789_062_5, 8),
            (SmallFloat::F6E2M3, 7.5, 0.125, 6),
            (SmallFloat::F6E3M2, 28.0, 0.0625, 6),
            (SmallFloat::F4E2M1, 6.0, 0.5, 4),
            (SmallFloat::F8E4M3Fnuz, 240.0, 0.000_976_562_5, 8),
            (SmallFloat::F8E5M2Fnuz, 57344.0, 0.000_007_629_394_531_25, 8),
        ];
        for (i, (format, max, min, bits)) in ends.into_iter().enumerate() {
            assert_eq!(SmallFloat::ALL[i].0, format, "rows are indexed by discriminant");
            assert_eq!((format.max(), format.decode(1), format.bits()), (max, min, bits));
        }
    }

    #[test]
    fn every_value_encodes_to_its_code_and_every_middle_to_the_even_neighbour() {
        for format in SmallFloat::all() {
            let largest = format.row().5;
            for code in 0..=largest {
                let x = format.decode(code);
                assert_eq!(format.encode(x), code, "{format:?} {x}");
                let negative = match (code, format.row().6) {
                    (0, Some(MINUS_ZERO)) => 0,
                    _ => code | 1 << (format.bits() - 1),
                };
                assert_eq!(format.encode(-x), negative);
                assert_eq!(format.decode(negative), -x);
                if code < largest {
                    let next = format.decode(code + 1);
                    assert!(next > x);
                    let even = code + code % 2;
                    assert_eq!(format.encode((x + next) / 2.0), even, "{format:?} above {x}");
                    assert_eq!(format.encode(x + (next - x) * 0.499), code);
                    assert_eq!(format.encode(x + (next - x) * 0.501), code + 1);
                }
            }
        }
    }

    #[test]
    fn what_is_too_large_saturates_and_nan_stays_where_there_is_one() {
        for format in SmallFloat::all() {
            for x in [1e9, f64::INFINITY] {
                assert_eq!(format.decode(format.encode(x)), format.max());
                assert_eq!(format.decode(format.encode(-x)), -format.max());
            }
            let nan = format.decode(format.encode(f64::NAN));
            assert!(nan.is_nan() || format.bits() < 8 && nan == format.max());
        }
        for format in [SmallFloat::F8E4M3Fnuz, SmallFloat::F8E5M2Fnuz] {
            assert!(format.decode(MINUS_ZERO).is_nan());
            assert_eq!((0..=255).filter(|&c| !format.decode(c).is_finite()).count(), 1);
            assert_eq!((format.encode(-1e-300), format.encode(-f64::NAN)), (0, MINUS_ZERO));
        }
        assert_eq!(SmallFloat::F8E5M2.decode(0x7c), f64::INFINITY);
        assert_eq!(SmallFloat::F8E5M2.decode(0xfc), f64::NEG_INFINITY);
        assert!(SmallFloat::F8E4M3.decode(0xff).is_nan());
        assert_eq!(SmallFloat::F4E2M1.encode(1e-300), 0);
    }

    #[test]
    fn e8m0_is_a_power_of_two() {
        assert_eq!(decode_e8m0(encode_e8m0(-3)), 0.125);
        assert_eq!(decode_e8m0(encode_e8m0(900)), power_of_two(127));
        assert_eq!(decode_e8m0(0), power_of_two(-127));
        assert!(decode_e8m0(255).is_nan());
    }
}
