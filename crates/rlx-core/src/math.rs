//! Float functions from `libm`, so that folding, RoPE tables and the reference executor give the
//! same bits on every target.

pub use libm::{
    atan, ceil, cos, erf, exp, exp2, expf, expm1, floor, fmod, log, log1p, log2, pow, powf, rint,
    round, sin, sqrt, sqrtf, tan, tanh, tanhf,
};

/// The f16 nearest to `x`, halves to even: one rounding, the same on every target. (`half` goes by
/// way of f32 on x86 and drops bits elsewhere.)
pub fn to_f16(x: f64) -> half::f16 {
    half::f16::from_f32(to_odd_f32(x))
}

/// The bf16 nearest to `x`, halves to even.
pub fn to_bf16(x: f64) -> half::bf16 {
    half::bf16::from_f32(to_odd_f32(x))
}

/// An f64 as an f32 that rounds to any narrower float as the f64 itself would: cut off towards
/// zero, its last bit set where bits were lost ["round to odd"]. Two roundings to nearest would
/// not do: 1 + 2^-11 + 2^-40 becomes the tie 1 + 2^-11, and that 1 in f16.
pub fn to_odd_f32(x: f64) -> f32 {
    let y = x as f32;
    let back = f64::from(y);
    if back == x || x.is_nan() {
        return y;
    }
    let cut = if back.abs() > x.abs() { y.to_bits() - 1 } else { y.to_bits() };
    f32::from_bits(cut | 1)
}

/// An integer as an f64 that rounds to any narrower float as the integer would.
pub fn to_odd_f64(x: i64) -> f64 {
    let y = x as f64;
    // As i128: the largest i64 rounds to 2^63.
    let back = y as i128;
    if back == i128::from(x) {
        return y;
    }
    let cut = if back.abs() > i128::from(x).abs() { y.to_bits() - 1 } else { y.to_bits() };
    f64::from_bits(cut | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_just_off_a_tie_round_to_their_own_side() {
        // Between the f16 1 and 1 + 2^-10 the tie is 1 + 2^-11; an f32 cannot hold the offset.
        let tie = 1.0 + exp2(-11.0);
        assert_eq!(to_f16(tie).to_f64(), 1.0);
        assert_eq!(to_f16(tie + exp2(-40.0)).to_f64(), 1.0 + exp2(-10.0));
        assert_eq!(to_f16(tie - exp2(-40.0)).to_f64(), 1.0);
        let tie = -1.0 - exp2(-8.0);
        assert_eq!(to_bf16(tie).to_f64(), -1.0);
        assert_eq!(to_bf16(tie - exp2(-50.0)).to_f64(), -1.0 - exp2(-7.0));
    }

    #[test]
    fn every_f32_near_a_half_rounds_as_half_rounds_it() {
        for i in 0..1u32 << 16 {
            let x = f32::from_bits(0x3f80_0000 + 37 * i);
            assert_eq!(to_f16(x.into()), half::f16::from_f32(x));
            assert_eq!(to_bf16(x.into()), half::bf16::from_f32(x));
        }
    }

    #[test]
    fn zeros_infinities_and_the_smallest_keep_their_sign() {
        assert_eq!(to_f16(-0.0).to_bits(), 0x8000);
        assert_eq!(to_f16(-1e-300).to_bits(), 0x8000);
        assert_eq!(to_f16(1e300), half::f16::INFINITY);
        assert_eq!(to_bf16(-1e300), half::bf16::NEG_INFINITY);
        assert_eq!(to_f16(65519.999), half::f16::MAX);
        assert!(to_f16(f64::NAN).is_nan());
    }

    #[test]
    fn an_odd_last_bit_keeps_a_second_rounding_right() {
        let above_a_tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(half::f16::from_f32(to_odd_f32(above_a_tie)).to_f64(), 1.0 + 2f64.powi(-10));
        let below_a_tie = 1.0 + 3.0 * 2f64.powi(-11) - 2f64.powi(-40);
        assert_eq!(half::f16::from_f32(to_odd_f32(-below_a_tie)).to_f64(), -1.0 - 2f64.powi(-10));
        assert_eq!(half::f16::from_f32(to_odd_f32(1e300)), half::f16::INFINITY);
        assert_eq!(half::f16::from_f32(to_odd_f32(1e-300)).to_bits(), 0);
        // 2^60 + 2^36 + 1: past a tie of f32, which an f64 cannot see.
        let n = (1i64 << 60) + (1 << 36) + 1;
        assert_eq!(to_odd_f64(n) as f32, n as f32);
        assert_ne!(n as f64 as f32, n as f32);
        assert_eq!(to_odd_f64(i64::MAX) as f32, i64::MAX as f32);
        assert_eq!(to_odd_f64(i64::MIN), i64::MIN as f64);
    }
}
