//! cos and sin for rotary embedding, in two short tables whose products give every position.
//!
//! With `L = low_rows`, position `p = h L + l` turns by `a + b`, `a = h L f`, `b = l f`:
//! `cos(a+b) = cos a cos b - sin a sin b`. So `L + ceil(C / L)` rows serve `C` positions: 16 kB
//! instead of 256 kB for 1,024 positions of 64, and no device ever takes the cosine of a large
//! angle, where drivers are wrong.

use super::{Class, Operator, RopeScaling, attributes};
use crate::error::{Error, Result};
use crate::math;
use crate::types::{DType, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `rope_table (freq_factors [dims / 2] f32)? -> [low_rows + high_rows, dims / 2, 2] f32`.
///
/// Element `[r, i, 0]` is cos and `[r, i, 1]` sin of `position(r) * f(i)`, where the scaling makes
/// `f(i)` of `base^(-2i/dims) / factor(i)`; in low rows both are multiplied by its attention factor.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeTable {
    /// Base of the frequencies.
    pub base: f32,
    /// Dimensions that turn, even.
    pub dims: usize,
    /// Positions served.
    pub context: u64,
    /// Change of frequencies.
    pub scaling: RopeScaling,
}

attributes! { RopeTable { base, dims, context, scaling } }

impl RopeTable {
    /// What a block has whose q and k do not turn: no dimensions, and no table.
    pub fn none(context: u64) -> RopeTable {
        RopeTable { base: 1.0, dims: 0, context, scaling: RopeScaling::None }
    }

    /// Rows of the low table: the power of two at or above `sqrt(context)`.
    pub fn low_rows(&self) -> u64 {
        let mut rows = 1;
        while rows * rows < self.context {
            rows *= 2;
        }
        rows
    }

    /// Rows of the high table.
    pub fn high_rows(&self) -> u64 {
        self.context.div_ceil(self.low_rows())
    }

    /// The table's elements. `factors` divide the frequencies, one each.
    pub fn compute(&self, factors: Option<&[f32]>) -> Vec<f32> {
        let (low, high) = (self.low_rows(), self.high_rows());
        let sizes = [f64::from(self.base), self.dims as f64, self.context as f64];
        let factor = |i: usize| factors.and_then(|f| f.get(i)).map_or(1.0, |&f| f64::from(f));
        let freqs: Vec<f64> =
            (0..self.dims / 2).map(|i| self.scaling.frequency(i, factor(i), sizes)).collect();
        let mut out = Vec::with_capacity((low + high) as usize * self.dims);
        for row in 0..low + high {
            let position = if row < low { row } else { (row - low) * low };
            // A position takes one row of each part, so one of them has the factor.
            let attention = if row < low { self.scaling.attention() } else { 1.0 };
            for &f in &freqs {
                let angle = position as f64 * f;
                out.push((attention * math::cos(angle)) as f32);
                out.push((attention * math::sin(angle)) as f32);
            }
        }
        out
    }
}

impl Operator for RopeTable {
    const NAME: &'static str = "rope_table";
    const CLASS: Class = Class::Boundary;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        if self.dims == 0
            || !self.dims.is_multiple_of(2)
            || self.context == 0
            || self.context > 1 << 40
        {
            return Err(Error::bad_graph(format!(
                "rope_table: {} dims of {} positions, expected an even number and at least one",
                self.dims, self.context
            )));
        }
        self.scaling.check(self.dims)?;
        let half = (self.dims / 2) as u64;
        match operands {
            [] => {}
            [factors] => {
                let need = Type::tensor(DType::F32, Shape::of(&[half]));
                super::expect("rope_table", "freq_factors", factors, &need)?;
            }
            _ => return Err(Error::bad_graph("rope_table takes 0 or 1 operands")),
        }
        let rows = self.low_rows() + self.high_rows();
        Ok(vec![Type::tensor(DType::F32, Shape::of(&[rows, half, 2]))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tables_reach_every_position() {
        let op = RopeTable { base: 10000.0, dims: 64, context: 1000, scaling: RopeScaling::None };
        let table = op.compute(None);
        let low = op.low_rows();
        assert_eq!((low, op.high_rows()), (32, 32));
        for p in [0u64, 1, 31, 32, 33, 511, 999] {
            for i in [0usize, 5, 31] {
                let at = |row: u64| {
                    let e = (row as usize * 32 + i) * 2;
                    (f64::from(table[e]), f64::from(table[e + 1]))
                };
                let (ca, sa) = at(low + p / low);
                let (cb, sb) = at(p % low);
                let angle = p as f64 * math::pow(10000.0, -2.0 * i as f64 / 64.0);
                assert!((ca * cb - sa * sb - math::cos(angle)).abs() < 2e-7, "cos {p} {i}");
                assert!((sa * cb + ca * sb - math::sin(angle)).abs() < 2e-7, "sin {p} {i}");
            }
        }
    }
}
