//! Float functions from `libm`, so that folding, RoPE tables and the reference executor give the
//! same bits on every target.

pub use libm::{
    atan, ceil, cos, erf, exp, exp2, expf, expm1, floor, fmod, log, log1p, log2, pow, powf, rint,
    round, sin, sqrt, sqrtf, tan, tanh, tanhf,
};

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
