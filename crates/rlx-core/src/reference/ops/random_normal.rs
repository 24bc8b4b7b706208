//! Normal random numbers.

use super::random_uniform::{UNIT, words};
use crate::error::Result;
use crate::math;
use crate::ops::RandomNormal;
use crate::reference::index::sizes;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View};
use crate::types::DType;
use alloc::vec;
use alloc::vec::Vec;

impl Run for RandomNormal {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let words = words(&self.dims, operands)?;
        let mut y = Vec::with_capacity(words.len());
        for pair in words.chunks(2) {
            let [a, b] = pair else { continue };
            let radius = math::sqrt(-2.0 * math::log(f64::from((a >> 8) + 1) * UNIT));
            let angle = 2.0 * core::f64::consts::PI * f64::from(b >> 8) * UNIT;
            y.extend([radius * math::cos(angle), radius * math::sin(angle)]);
        }
        y.truncate(sizes(&self.dims)?.iter().product());
        Ok(vec![scalar_bytes(DType::F32, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{RandomNormal, RandomUniform};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::Shape;

    fn normal(n: u64, key: [u32; 4]) -> alloc::vec::Vec<f32> {
        run1(RandomNormal { dims: Shape::of(&[n]) }, &[&u32s(&[4], &key)])
    }

    #[test]
    fn pairs_are_polar_coordinates_of_uniform_words() {
        let key = [5, 6, 7, 8];
        let u = run1(RandomUniform { dims: Shape::of(&[4]) }, &[&u32s(&[4], &key)]);
        let y = normal(4, key);
        for (u, y) in u.chunks(2).zip(y.chunks(2)) {
            let (a, b) = (f64::from(u[0]) + 2f64.powi(-24), f64::from(u[1]));
            let (radius, angle) = ((-2.0 * a.ln()).sqrt(), 2.0 * core::f64::consts::PI * b);
            close(y, &[radius * angle.cos(), radius * angle.sin()]);
        }
        assert_eq!(normal(3, key), y[..3]);
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_standard_normal() {
        let y = normal(20_000, [1, 0, 0, 0]);
        let mean = y.iter().map(|y| f64::from(*y)).sum::<f64>() / 2e4;
        let variance = y.iter().map(|y| f64::from(*y).powi(2)).sum::<f64>() / 2e4;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.04, "{mean} {variance}");
        let beyond = y.iter().filter(|y| y.abs() > 1.96).count() as f64 / 2e4;
        assert!((beyond - 0.05).abs() < 0.01, "{beyond}");
        assert!(y.iter().all(|y| y.is_finite()));
        assert!(normal(0, [0; 4]).is_empty());
    }

    #[test]
    fn the_key_is_four_words() {
        let op = RandomNormal { dims: Shape::of(&[2]) };
        assert_eq!(text(op.clone(), &["4xu32"]), "random_normal {dims = [2]}");
        assert_eq!(
            refuses(op, &["4xi32"]),
            "random_normal: key is tensor<4xi32>, expected tensor<4xu32>"
        );
    }
}
