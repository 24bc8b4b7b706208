//! A product with a low-rank addition to its weight.

use crate::error::Result;
use crate::ops::LoraMatMul;
use crate::reference::view::{dot, scalar_bytes};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for LoraMatMul {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, w, a, b] = operands else { return Err(arity("lora_matmul")) };
        let ([n, k], [r, _]) = (w.dims()?, a.dims()?);
        let rows = x.sizes()?.iter().rev().skip(1).product::<usize>();
        let (v, a, b) = (x.f64s()?, a.f64s()?, b.f64s()?);
        let mut y = vec![0.0; rows * n];
        let mut weight = vec![0.0; k];
        let narrow: Vec<f64> = (0..rows * r)
            .map(|i| dot(&v[i / r * k..][..k], &a[i % r * k..][..k]) * f64::from(self.scale))
            .collect();
        for j in 0..n {
            w.row_f64(j, &mut weight)?;
            for i in 0..rows {
                let low = dot(&narrow[i * r..][..r], &b[j * r..][..r]);
                y[i * n + j] = dot(&v[i * k..][..k], &weight) + low;
            }
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{LoraMatMul, MatMul};
    use crate::reference::testing::*;

    #[test]
    fn the_product_of_the_small_matrices_is_added_to_the_weight() {
        // W = [[1, 0], [0, 1]], B A = [[1], [2]] [[3, 4]] = [[3, 4], [6, 8]], scale 0.5.
        let x = f32s(&[1, 2], &[1.0, 10.0]);
        let w = f32s(&[2, 2], &[1.0, 0.0, 0.0, 1.0]);
        let (a, b) = (f32s(&[1, 2], &[3.0, 4.0]), f32s(&[2, 1], &[1.0, 2.0]));
        let y = run1(LoraMatMul { scale: 0.5 }, &[&x, &w, &a, &b]);
        assert_eq!(y, [1.0 + 21.5, 10.0 + 43.0]);
    }

    #[test]
    fn a_scale_of_zero_is_the_plain_product_of_packed_weights_too() {
        let x = f32s(&[3, 32], &noise(96, 1));
        let w = q8_0(&[5, 32], &noise(160, 2));
        let (a, b) = (f32s(&[2, 32], &noise(64, 3)), f32s(&[5, 2], &noise(10, 4)));
        let y = run(LoraMatMul { scale: 0.0 }, &[&x, &w, &a, &b]);
        assert_eq!(y, run(MatMul::plain(), &[&x, &w]));
    }

    #[test]
    fn ranks_that_differ_are_named_with_all_shapes() {
        let zeros = |d: &[u64]| f32s(d, &alloc::vec![0.0; d.iter().product::<u64>() as usize]);
        let e = fails(
            LoraMatMul { scale: 1.0 },
            &[&zeros(&[1, 2]), &zeros(&[3, 2]), &zeros(&[4, 2]), &zeros(&[3, 5])],
        );
        assert_eq!(
            e.what,
            "lora_matmul: x is tensor<1x2xf32>, w is tensor<3x2xf32>, a is tensor<4x2xf32>, b is \
             tensor<3x5xf32>; expected w [N, K], a [R, K] and b [N, R] to match x's last axis 2"
        );
    }
}
