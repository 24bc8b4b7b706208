//! Each row times the weight of its expert.

use crate::error::Result;
use crate::ops::GroupedMatMul;
use crate::reference::view::{dot, scalar_bytes};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for GroupedMatMul {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, w, ids] = operands else { return Err(arity("grouped_matmul")) };
        let ([m, k], [experts, n, _]) = (x.dims()?, w.dims()?);
        let v = x.f64s()?;
        let last = experts.saturating_sub(1);
        let ids: Vec<usize> = ids.words().iter().map(|&id| (id as usize).min(last)).collect();
        let mut y = vec![0.0; m * n];
        let mut weight = vec![0.0; k];
        // By expert, so that each row of a weight is decoded once.
        for expert in 0..experts {
            let rows: Vec<usize> = (0..m).filter(|&i| ids[i] == expert).collect();
            if rows.is_empty() {
                continue;
            }
            for j in 0..n {
                w.row_f64(expert * n + j, &mut weight)?;
                for &i in &rows {
                    y[i * n + j] = dot(&v[i * k..][..k], &weight);
                }
            }
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{GroupedMatMul, MatMul};
    use crate::reference::testing::*;

    #[test]
    fn each_row_is_multiplied_by_its_expert_and_an_id_too_large_reads_the_last() {
        let x = f32s(&[3, 2], &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
        let w = f32s(&[2, 1, 2], &[1.0, 1.0, 10.0, 100.0]);
        let y = run1(GroupedMatMul, &[&x, &w, &u32s(&[3], &[1, 0, 9])]);
        assert_eq!(y, [210.0, 3.0, 210.0]);
    }

    #[test]
    fn one_packed_expert_is_matmul() {
        let (x, w) = (f32s(&[3, 64], &noise(192, 1)), noise(5 * 64, 2));
        let y = run(GroupedMatMul, &[&x, &q8_0(&[1, 5, 64], &w), &u32s(&[3], &[0; 3])]);
        assert_eq!(y, run(MatMul::plain(), &[&x, &q8_0(&[5, 64], &w)]));
    }

    #[test]
    fn operands_that_do_not_fit_are_named_with_their_shapes() {
        let x = f32s(&[3, 2], &[0.0; 6]);
        let e = fails(GroupedMatMul, &[&x, &f32s(&[2, 1, 3], &[0.0; 6]), &u32s(&[3], &[0; 3])]);
        assert_eq!(
            e.what,
            "grouped_matmul: x is tensor<3x2xf32>, w is tensor<2x1x3xf32>, ids is tensor<3xu32>; \
             expected w [E, N, K] of at least one expert to match x [M, K], and ids u32 [M]"
        );
        let w = f32s(&[2, 1, 2], &[0.0; 4]);
        assert!(
            fails(GroupedMatMul, &[&x, &w, &u32s(&[2], &[0; 2])]).what.contains("tensor<2xu32>")
        );
    }
}
