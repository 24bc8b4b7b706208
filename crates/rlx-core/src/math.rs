//! Float functions from `libm`, so that folding, RoPE tables and the reference executor give the
//! same bits on every target.

pub use libm::{
    atan, ceil, cos, erf, exp, exp2, expf, expm1, floor, fmod, log, log1p, log2, log10, pow, powf,
    rint, round, sin, sqrt, sqrtf, tan, tanh, tanhf,
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

/// `x` as an f32 that rounds to a shorter float as `x` itself does: cut toward zero, with the last
/// bit set if anything was cut (Boldo and Melquiond's rounding to odd, doi:10.1109/TC.2007.70819).
pub fn to_odd_f32(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) == x || !near.is_finite() {
        return near; // exact, NaN, or beyond every shorter float
    }
    let cut = near.to_bits() - u32::from(f64::from(near).abs() > x.abs());
    f32::from_bits(cut | 1)
}

/// An integer as an f64 that rounds to any shorter float as the integer does.
pub fn to_odd_f64(x: i64) -> f64 {
    let near = x as f64;
    // In i128: the largest i64 rounds to 2^63.
    let back = near as i128;
    if back == i128::from(x) {
        return near;
    }
    let cut = near.to_bits() - u64::from(back.abs() > i128::from(x).abs());
    f64::from_bits(cut | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_past_a_tie_rounds_to_its_own_side() {
        // 2^60 + 2^36 + 1: past a tie of f32, which an f64 cannot hold.
        let n = (1i64 << 60) + (1 << 36) + 1;
        assert_eq!(to_odd_f64(n) as f32, n as f32);
        assert_ne!(n as f64 as f32, n as f32);
        assert_eq!(to_odd_f64(i64::MAX) as f32, i64::MAX as f32);
        assert_eq!(to_odd_f64(i64::MIN), i64::MIN as f64);
    }

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
}
