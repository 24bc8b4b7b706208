//! One of two tensors, element by element.

use crate::error::Result;
use crate::ops::{Op, Select};
use crate::reference::index::{repeated, room, sizes};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Select {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [cond, a, b] = operands else { return Err(arity("select")) };
        let ty = &Op::Select(self.clone()).infer(&[cond.ty, a.ty, b.ty])?[0];
        let to = sizes(&ty.shape)?;
        let places = |x: &View<'_>| repeated(&sizes(&x.ty.shape)?, &to);
        let (conds, at, bt) = (places(cond)?, places(a)?, places(b)?);
        let size = ty.dtype.block_bytes();
        let mut out = room(conds.len().saturating_mul(size))?;
        for ((c, i), j) in conds.into_iter().zip(at).zip(bt) {
            let (x, k) = if cond.bytes[c] != 0 { (a, i) } else { (b, j) };
            out.extend_from_slice(&x.bytes[k * size..][..size]);
        }
        Ok(vec![out])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Alias, Operator, Select};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;

    #[test]
    fn three_shapes_repeat_to_one() {
        let cond = integers(DType::BOOL, &[2, 1], &[1, 0]);
        let (a, b) = (f32s(&[3], &[1.0, 2.0, 3.0]), f32s(&[], &[-1.0]));
        assert_eq!(run1(Select, &[&cond, &a, &b]), [1.0, 2.0, 3.0, -1.0, -1.0, -1.0]);
        assert_eq!(gives(Select, &["bool", "SEQxf16", "1x1xf16"]), ["tensor<1xSEQxf16>"]);
    }

    #[test]
    fn what_is_not_taken_has_no_part_in_the_result() {
        let cond = integers(DType::BOOL, &[2], &[1, 0]);
        let (a, b) = (f32s(&[2], &[-0.0, f32::NAN]), f32s(&[2], &[f32::INFINITY, 7.0]));
        let y = run1(Select, &[&cond, &a, &b]);
        assert!(y[0] == 0.0 && y[0].is_sign_negative() && y[1] == 7.0);
        let big = integers(DType::I64, &[2], &[i64::MIN, (1 << 53) + 1]);
        assert_eq!(run_ints(Select, &[&cond, &big, &big]), [i64::MIN, (1 << 53) + 1]);
        let bools = run_ints(Select, &[&cond, &cond, &integers(DType::BOOL, &[], &[1])]);
        assert_eq!(bools, [1, 1]);
    }

    #[test]
    fn other_types_and_shapes_are_refused_by_name() {
        assert_eq!(
            refuses(Select, &["2xu32", "2xf32", "2xf32"]),
            "select: cond is tensor<2xu32>, expected bool"
        );
        assert_eq!(
            refuses(Select, &["2xbool", "2xf32", "2xf16"]),
            "select: operands are tensor<2xf32> and tensor<2xf16>, expected one element type"
        );
        assert_eq!(
            refuses(Select, &["2xbool", "3xf32", "f32"]),
            "select: operands tensor<2xbool>, tensor<3xf32>, tensor<f32> do not broadcast, on one axis they have 2 and 3"
        );
        assert_eq!(text(Select, &["2xbool", "2xf32", "f32"]), "select");
    }

    #[test]
    fn the_result_is_in_place_of_a_where_a_does_not_repeat() {
        let alias = |c, a, b| Select.alias(&[&ty(c), &ty(a), &ty(b)]);
        assert_eq!(alias("bool", "2x3xf32", "3xf32"), Alias::Elementwise { operand: 1 });
        assert_eq!(alias("2x3xbool", "3xf32", "3xf32"), Alias::None);
    }
}
