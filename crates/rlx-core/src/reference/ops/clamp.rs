//! Numbers between two bounds.

use crate::error::Result;
use crate::ops::Clamp;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Clamp {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("clamp")) };
        let (low, high) = (f64::from(self.min), f64::from(self.max));
        let y: Vec<f64> = x.f64s()?.into_iter().map(|v| v.max(low).min(high)).collect();
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::Clamp;
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;

    const CLAMP: Clamp = Clamp { min: -1.0, max: 6.0 };

    #[test]
    fn numbers_stay_between_the_bounds_and_a_nan_is_the_lower_one() {
        let x = f32s(&[5], &[-2.0, -0.0, 6.5, f32::NAN, f32::INFINITY]);
        assert_eq!(run1(CLAMP, &[&x]), [-1.0, 0.0, 6.0, -1.0, 6.0]);
        let third = Clamp { min: 1.0 / 3.0, max: 1.0 };
        assert_eq!(run_f64s(third, &[&numbers(DType::BF16, &[1], &[0.0])]), [0.333984375]);
        assert!(run1(CLAMP, &[&f32s(&[0], &[])]).is_empty());
    }

    #[test]
    fn its_parts_are_a_maximum_and_a_minimum() {
        let x = noise(24, 1).iter().map(|x| x * 9.0).collect::<alloc::vec::Vec<_>>();
        decomposes(CLAMP, &[&f32s(&[2, 12], &x)], 0.0);
        decomposes(Clamp { min: 0.1, max: 0.7 }, &[&floats(DType::F16, &[24], &x)], 0.0);
        decomposes(CLAMP, &[&f32s(&[1], &[f32::NAN])], 0.0);
    }

    #[test]
    fn bounds_that_are_none_are_refused() {
        assert_eq!(
            refuses(Clamp { min: 1.0, max: 0.0 }, &["2xf32"]),
            "clamp: bounds are 1 and 0, expected a lower and an upper one"
        );
        assert!(refuses(Clamp { min: f32::NAN, max: 0.0 }, &["2xf32"]).contains("bounds are NaN"));
        assert!(refuses(CLAMP, &["2xi32"]).contains("expected a tensor of floats"));
        assert_eq!(gives(CLAMP, &["SEQxf16"]), ["tensor<SEQxf16>"]);
        let open = Clamp { min: f32::NEG_INFINITY, max: 0.1 };
        assert_eq!(text(open, &["2xf32"]), "clamp {min = -inf, max = 0.1}");
    }
}
