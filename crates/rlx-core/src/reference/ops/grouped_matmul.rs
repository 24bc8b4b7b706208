//! Products with the weights of a row's experts.

use super::weighted_sum;
use crate::error::Result;
use crate::ops::{GroupedEpilogue, GroupedMatMul};
use crate::reference::view::{dot, rounded, scalar_bytes};
use crate::reference::{Run, View, arity};
use crate::types::DType;
use alloc::vec;
use alloc::vec::Vec;

impl Run for GroupedMatMul {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let parts = self.parts();
        if operands.len() != parts.count {
            return Err(arity("grouped_matmul"));
        }
        let (x, ids) = (&operands[0], &operands[parts.ids]);
        let dtype = if x.ty.dtype.is_block() { DType::F32 } else { x.ty.dtype };
        let ([m, k], x_axes) = (ids.dims()?, x.ty.shape.rank());
        let v = x.f64s()?;
        let mut results = Vec::with_capacity(self.segments);
        for i in 0..self.segments {
            let bank = &operands[parts.banks + i];
            let [experts, n, width] = bank.dims()?;
            let bias = match parts.biases {
                Some(first) => operands[first + i].f64s()?,
                None => vec![0.0; experts * n],
            };
            let last = experts.saturating_sub(1);
            let ids: Vec<usize> = ids.words().iter().map(|&id| (id as usize).min(last)).collect();
            let mut y = vec![0.0; m * k * n];
            let mut weight = vec![0.0; width];
            // By expert, so that each row of a bank is decoded once.
            for expert in 0..experts {
                let pairs: Vec<usize> = (0..m * k).filter(|&p| ids[p] == expert).collect();
                if pairs.is_empty() {
                    continue;
                }
                for j in 0..n {
                    bank.row_f64(expert * n + j, &mut weight)?;
                    for &p in &pairs {
                        let row = if x_axes == 3 { p } else { p / k };
                        let product = dot(&v[row * width..][..width], &weight);
                        y[p * n + j] = rounded(dtype, product + bias[expert * n + j]);
                    }
                }
            }
            results.push(y);
        }
        match self.epilogue {
            GroupedEpilogue::None => {}
            GroupedEpilogue::Glu(f) => {
                let up = results.pop().unwrap_or_default(); // the type rule asks for two segments
                for (gate, up) in results.iter_mut().flatten().zip(up) {
                    *gate = rounded(dtype, f.eval(*gate)) * up;
                }
            }
            GroupedEpilogue::LimitedGlu(f, limit) => {
                let up = results.pop().unwrap_or_default();
                let limit = f64::from(limit);
                for (gate, up) in results.iter_mut().flatten().zip(up) {
                    let up = rounded(dtype, up.min(limit).max(-limit) + 1.0);
                    *gate = rounded(dtype, f.eval(gate.min(limit))) * up;
                }
            }
            GroupedEpilogue::Sum | GroupedEpilogue::SumAdd => {
                let shares = match parts.shares {
                    Some(at) => operands[at].f64s()?,
                    None => return Err(arity("grouped_matmul")),
                };
                let each = results.pop().unwrap_or_default();
                let n = each.len().checked_div(m * k).unwrap_or(0);
                let mut sum = weighted_sum::sum(&each, &shares, [m, k, n]);
                if let Some(at) = parts.residual {
                    for (sum, r) in sum.iter_mut().zip(operands[at].f64s()?) {
                        *sum = rounded(dtype, *sum) + r;
                    }
                }
                results.push(sum);
            }
        }
        results.iter().map(|y| scalar_bytes(dtype, y)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::*;
    use crate::reference::testing::*;
    use alloc::vec::Vec;

    fn plain() -> GroupedMatMul {
        GroupedMatMul::default()
    }

    #[test]
    fn each_row_meets_its_experts_and_an_id_too_large_reads_the_last() {
        let x = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let w = f32s(&[2, 1, 2], &[1.0, 1.0, 10.0, 100.0]);
        let y = run1(plain(), &[&x, &w, &u32s(&[2, 2], &[1, 0, 0, 9])]);
        assert_eq!(y, [210.0, 3.0, 7.0, 430.0]);
        // A row for each of its experts.
        let x = f32s(&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(run1(plain(), &[&x, &w, &u32s(&[1, 2], &[1, 0])]), [210.0, 7.0]);
    }

    #[test]
    fn one_packed_expert_is_matmul() {
        let (x, w) = (f32s(&[3, 64], &noise(192, 1)), noise(5 * 64, 2));
        let y = run(plain(), &[&x, &q8_0(&[1, 5, 64], &w), &u32s(&[3, 1], &[0; 3])]);
        assert_eq!(y[0].bytes, run(MatMul::plain(), &[&x, &q8_0(&[5, 64], &w)])[0].bytes);
    }

    #[test]
    fn fused_forms_give_the_bits_of_the_steps_they_stand_for() {
        let x = f32s(&[3, 16], &noise(48, 1));
        let ids = u32s(&[3, 2], &[3, 0, 1, 1, 2, 7]);
        let bank = |seed| f32s(&[4, 5, 16], &noise(4 * 5 * 16, seed));
        let (gate, up, b0, b1) =
            (bank(2), bank(3), f32s(&[4, 5], &noise(20, 4)), f32s(&[4, 5], &noise(20, 5)));
        let biased = GroupedMatMul { bias: true, ..plain() };
        let y0 = &run(biased.clone(), &[&x, &gate, &b0, &ids])[0];
        let y1 = &run(biased.clone(), &[&x, &up, &b1, &ids])[0];
        let both = GroupedMatMul { segments: 2, ..biased };
        let operands = [&x, &gate, &up, &b0, &b1, &ids];
        assert_eq!(run(both, &operands), [y0.clone(), y1.clone()]);
        let act = &run(Map { f: Unary::Silu }, &[y0])[0];
        let glu = GroupedMatMul { bias: true, ..GroupedMatMul::glu(Unary::Silu) };
        assert_eq!(run(glu, &operands), run(Zip { f: Binary::Mul }, &[act, y1]));

        let shares = f32s(&[3, 2], &noise(6, 6));
        let residual = f32s(&[3, 5], &noise(15, 7));
        let sum = &run(GroupedMatMul::sum(), &[&x, &gate, &ids, &shares])[0];
        let y = run1(plain(), &[&x, &gate, &ids]);
        let expected: Vec<f64> = (0..15)
            .map(|i| {
                (0..2)
                    .map(|j| {
                        f64::from(y[(i / 5 * 2 + j) * 5 + i % 5])
                            * f64::from(shares.f32s()[i / 5 * 2 + j])
                    })
                    .sum()
            })
            .collect();
        close(&sum.f32s(), &expected);
        let add = GroupedMatMul { epilogue: GroupedEpilogue::SumAdd, ..plain() };
        let expected = run(Zip { f: Binary::Add }, &[sum, &residual]);
        assert_eq!(run(add, &[&x, &gate, &ids, &shares, &residual]), expected);
    }

    #[test]
    fn int8_rows_are_decoded() {
        use crate::types::BlockFormat;
        let (x, w) = (f32s(&[2, 3, 32], &noise(192, 1)), q8_0(&[2, 5, 32], &noise(320, 2)));
        let ids = u32s(&[2, 3], &[0, 1, 1, 0, 0, 0]);
        let blocks = &run(QuantizeRows::to(BlockFormat::Q8_0), &[&x])[0];
        let decoded = &run(Unpack, &[blocks])[0];
        assert_eq!(run(plain(), &[blocks, &w, &ids]), run(plain(), &[decoded, &w, &ids]));
    }

    #[test]
    fn operands_that_do_not_fit_are_named_with_their_shapes() {
        let (x, ids) = (f32s(&[3, 2], &[0.0; 6]), u32s(&[3, 1], &[0; 3]));
        let e = fails(plain(), &[&x, &f32s(&[2, 1, 3], &[0.0; 6]), &ids]);
        assert_eq!(
            e.what,
            "grouped_matmul: x is tensor<3x2xf32>, bank is tensor<2x1x3xf32>; expected banks \
             [E, N, K] of equally many experts, at least one, to match x"
        );
        let w = f32s(&[2, 1, 2], &[0.0; 4]);
        let e = fails(plain(), &[&x, &w, &u32s(&[3], &[0; 3])]);
        assert_eq!(
            e.what,
            "grouped_matmul: x is tensor<3x2xf32>, ids is tensor<3xu32>; expected x [M, K] or \
             [M, k, K] and ids u32 [M, k]"
        );
        let glu = GroupedMatMul::glu(Unary::Silu);
        let e = fails(glu, &[&x, &w, &f32s(&[3, 1, 2], &[0.0; 6]), &ids]);
        assert!(e.what.contains("equally many experts"), "{e}");
        let e =
            fails(GroupedMatMul { bias: true, ..plain() }, &[&x, &w, &f32s(&[2], &[0.0; 2]), &ids]);
        assert_eq!(e.what, "grouped_matmul: bias is tensor<2xf32>, expected tensor<2x1xf32>");
        let e = fails(GroupedMatMul::sum(), &[&x, &w, &ids, &f32s(&[3, 2], &[0.0; 6])]);
        assert_eq!(e.what, "grouped_matmul: shares is tensor<3x2xf32>, expected tensor<3x1xf32>");
    }
}
