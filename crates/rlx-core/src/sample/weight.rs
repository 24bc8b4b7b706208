//! From a distance below the best logit to an integer weight: `w(q) = 2^31 * 2^(-q / 2^16)`.
//!
//! A polynomial in integers, not a table: a shader repeats it with 32-bit multiplies alone, and
//! there is nothing to upload. Its coefficients interpolate `2^-f` at the six Chebyshev-Lobatto
//! points of `[0, 1]`, so that octaves meet: `w(0) = 2^31`, and `w` falls strictly with `f`.
//! The relative error within the first octave is below 1.6e-7; one step of `q` is 1.06e-5.

/// The least distance whose weight is zero for certain: 32 octaves. Distances saturate here.
pub const FAR: u32 = 32 << 16;

/// `|c_k| * 2^31` of `2^-f = c_0 - c_1 f + c_2 f^2 - ...`, highest power first.
const COEFFICIENTS: [u32; 6] =
    [2_034_856, 19_794_886, 118_784_456, 515_800_015, 1_488_517_413, 1 << 31];

/// The weight of a logit `q / 2^16` octaves below the best one; `2^31` for the best.
///
/// The whole octaves of `q` are a shift, which drops bits: weights below `2^31 * 2^-24` have
/// fewer than 8 significant bits, and from [`FAR`] on they are zero.
pub const fn weight(q: u32) -> u32 {
    if q >= FAR {
        return 0;
    }
    let fraction = (q & 0xFFFF) as u64;
    let mut sum = COEFFICIENTS[0];
    let mut k = 1;
    while k < COEFFICIENTS.len() {
        sum = COEFFICIENTS[k] - ((sum as u64 * fraction) >> 16) as u32;
        k += 1;
    }
    sum >> (q >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math;

    #[test]
    fn weight_is_exact_at_zero_and_halves_with_each_octave() {
        for octave in 0..32 {
            assert_eq!(weight(octave << 16), 1 << (31 - octave));
        }
        assert_eq!(weight(FAR - 1), 0);
        assert_eq!(weight(FAR), 0);
        assert_eq!(weight(u32::MAX), 0);
    }

    #[test]
    fn weight_is_within_its_bound_and_falls_strictly_in_the_first_octave() {
        let mut before = u32::MAX;
        for q in 0..1u32 << 16 {
            let exact = 2_147_483_648.0 * math::exp2(-f64::from(q) / 65536.0);
            let error = (f64::from(weight(q)) - exact).abs() / exact;
            assert!(error < 1.6e-7, "w({q}) is off by {error:e}");
            assert!(weight(q) < before, "w({q}) does not fall");
            before = weight(q);
        }
        assert!(before > 1 << 30, "the octaves do not meet");
    }
}
