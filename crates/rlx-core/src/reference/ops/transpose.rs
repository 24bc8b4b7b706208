//! Axes in another order.

use crate::error::Result;
use crate::ops::Transpose;
use crate::reference::index::{pick, sizes, strides};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Transpose {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("transpose")) };
        let dims = sizes(&x.ty.shape)?;
        let strides = strides(&dims);
        let to: Vec<usize> = self.perm.iter().map(|&axis| dims[axis]).collect();
        let from = |index: &[usize]| {
            index.iter().zip(&self.perm).map(|(i, &axis)| i * strides[axis]).sum()
        };
        Ok(vec![pick(x, &to, from)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Alias, Operator, Transpose};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;

    fn transpose(perm: &[usize]) -> Transpose {
        Transpose { perm: perm.to_vec() }
    }

    #[test]
    fn axis_i_of_the_result_is_axis_perm_i() {
        let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(run1(transpose(&[1, 0]), &[&x]), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let x = integers(DType::I64, &[2, 1, 2], &[1, i64::MAX, 3, 4]);
        assert_eq!(run_ints(transpose(&[2, 0, 1]), &[&x]), [1, 3, i64::MAX, 4]);
        assert_eq!(run1(transpose(&[]), &[&f32s(&[], &[7.0])]), [7.0]);
        assert!(run1(transpose(&[1, 0]), &[&f32s(&[0, 3], &[])]).is_empty());
    }

    #[test]
    fn every_axis_stands_once_in_the_order() {
        assert_eq!(gives(transpose(&[2, 0, 1]), &["2xSEQx4xbool"]), ["tensor<4x2xSEQxbool>"]);
        for perm in [&[0usize, 0][..], &[0, 2], &[0]] {
            assert_eq!(
                refuses(transpose(perm), &["2x3xf32"]),
                alloc::format!("transpose: x is tensor<2x3xf32>, {perm:?} is no order of its axes")
            );
        }
        assert!(refuses(transpose(&[0, 1]), &["2x32xq8_0"]).contains("tensor<2x32xq8_0>"));
        assert_eq!(text(transpose(&[1, 0]), &["2x3xf32"]), "transpose {perm = [1, 0]}");
    }

    #[test]
    fn where_only_axes_of_1_move_it_is_a_view() {
        let alias = |perm: &[usize], x| transpose(perm).alias(&[&ty(x)]);
        let view = Alias::View { operand: 0, byte_offset: 0 };
        assert_eq!(alias(&[0, 1], "2x3xf32"), view);
        assert_eq!(alias(&[1, 0, 2], "1xSEQx3xf32"), view);
        assert_eq!(alias(&[1, 2, 0], "1x2x3xf32"), view);
        assert_eq!(alias(&[1, 0], "2x3xf32"), Alias::None);
        assert_eq!(alias(&[1, 0], "SEQx3xf32"), Alias::None);
    }
}
