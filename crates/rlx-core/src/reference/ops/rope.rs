//! Rotary position embedding from the two short tables.

use crate::error::Result;
use crate::ops::{Rope, RopeStyle};
use crate::reference::view::{rounded, scalar_bytes};
use crate::reference::{Run, View, arity};
use crate::sample::Control;
use alloc::vec;
use alloc::vec::Vec;

impl Run for Rope {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, table, ctl] = operands else { return Err(arity("rope")) };
        let y = rotate(x, table, &ctl.control()?, self.style, self.head_dim)?;
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

/// Every row of `x`, turned by its position and rounded to its type. A position past the table's
/// last turns like that one: only rows from `len` on have one.
pub(crate) fn rotate(
    x: &View<'_>,
    table: &View<'_>,
    ctl: &Control,
    style: RopeStyle,
    head_dim: usize,
) -> Result<Vec<f64>> {
    let [rows, width] = x.dims()?;
    let [table_rows, half, _] = table.dims()?;
    let (dtype, mut y, table) = (x.ty.dtype, x.f64s()?, table.f64s()?);
    if width == 0 || head_dim == 0 || table_rows < 2 {
        return Ok(y);
    }
    // With L low rows there are more than L / 4 and at most L high rows, so the sum tells L.
    let low = table_rows.div_ceil(2).next_power_of_two();
    let high = table_rows - low;
    let turn = |row: usize, i: usize| {
        let at = (row * half + i) * 2;
        (table[at], table[at + 1])
    };
    for (i, row) in y.chunks_exact_mut(width).enumerate().take(rows) {
        let position = (ctl.past as usize).saturating_add(i).min(low * high - 1);
        for head in row.chunks_exact_mut(head_dim) {
            for pair in 0..half {
                let (cos_a, sin_a) = turn(low + position / low, pair);
                let (cos_b, sin_b) = turn(position % low, pair);
                let (cos, sin) = (cos_a * cos_b - sin_a * sin_b, sin_a * cos_b + cos_a * sin_b);
                let (first, second) = match style {
                    RopeStyle::Adjacent => (2 * pair, 2 * pair + 1),
                    RopeStyle::Half => (pair, pair + half),
                };
                let (a, b) = (head[first], head[second]);
                head[first] = rounded(dtype, a * cos - b * sin);
                head[second] = rounded(dtype, a * sin + b * cos);
            }
        }
    }
    Ok(y)
}

#[cfg(test)]
mod tests {
    use crate::ops::{Rope, RopeScaling, RopeStyle, RopeTable};
    use crate::reference::testing::*;
    use crate::reference::view::scalar_bytes;
    use crate::types::{DType, Scalar, Type};

    #[test]
    fn pairs_turn_by_position_times_frequency_in_both_styles_across_both_tables() {
        // 6 of 8 dimensions turn; 37 positions: 8 low rows and 5 high ones.
        for context in [1u64, 2, 3, 37, 64, 65] {
            let op = RopeTable { base: 100.0, dims: 6, context, scaling: RopeScaling::None };
            let table = &run(op, &[])[0];
            let x = noise(16, 9);
            for past in 0..context {
                let ctl = control(past as u32, 1, 0);
                for style in [RopeStyle::Adjacent, RopeStyle::Half] {
                    let op = Rope { style, head_dim: 8 };
                    let y = run1(op, &[&f32s(&[1, 16], &x), table, &ctl]);
                    let mut expected: alloc::vec::Vec<f64> =
                        x.iter().map(|&v| f64::from(v)).collect();
                    for head in 0..2 {
                        for i in 0..3 {
                            let angle = past as f64 * 100f64.powf(-2.0 * i as f64 / 6.0);
                            let (a, b) = match style {
                                RopeStyle::Adjacent => (2 * i, 2 * i + 1),
                                RopeStyle::Half => (i, i + 3),
                            };
                            let (a, b) = (8 * head + a, 8 * head + b);
                            let (p, q) = (f64::from(x[a]), f64::from(x[b]));
                            expected[a] = p * angle.cos() - q * angle.sin();
                            expected[b] = p * angle.sin() + q * angle.cos();
                        }
                    }
                    close(&y, &expected);
                }
            }
        }
    }

    #[test]
    fn row_i_has_position_past_plus_i() {
        let op = RopeTable { base: 10.0, dims: 2, context: 40, scaling: RopeScaling::None };
        let table = &run(op, &[])[0];
        let op = Rope { style: RopeStyle::Half, head_dim: 2 };
        let x = f32s(&[3, 2], &[1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
        let y = run1(op, &[&x, table, &control(7, 3, 0)]);
        close(&y, &[7f64, 8.0, 9.0].map(|p| [p.cos(), p.sin()]).concat());
    }

    #[test]
    fn a_row_past_the_table_does_not_fail() {
        let op = RopeTable { base: 10.0, dims: 2, context: 4, scaling: RopeScaling::None };
        let table = &run(op, &[])[0];
        let op = Rope { style: RopeStyle::Half, head_dim: 2 };
        run(op, &[&f32s(&[2, 2], &[1.0; 4]), table, &control(u32::MAX, 1, 0)]);
    }

    #[test]
    fn half_floats_turn_wide_and_round_once() {
        let op = RopeTable { base: 100.0, dims: 4, context: 9, scaling: RopeScaling::None };
        let table = &run(op, &[])[0];
        let op = Rope { style: RopeStyle::Adjacent, head_dim: 6 };
        for dtype in [DType::F16, DType::BF16] {
            let x = floats(dtype, &[2, 12], &noise(24, 3));
            let exact = Value {
                ty: Type::tensor(DType::Scalar(Scalar::F64), x.ty.shape.clone()),
                bytes: x.f64s().iter().flat_map(|v| v.to_le_bytes()).collect(),
            };
            let ctl = control(5, 2, 0);
            let wide = run(op.clone(), &[&exact, table, &ctl])[0].f64s();
            let y = &run(op.clone(), &[&x, table, &ctl])[0];
            assert_eq!((&y.ty, &y.bytes), (&x.ty, &scalar_bytes(dtype, &wide).unwrap()));
            // Dimensions 4 and 5 of 6 pass through.
            assert_eq!(y.f64s()[4..6], x.f64s()[4..6]);
        }
    }
}
