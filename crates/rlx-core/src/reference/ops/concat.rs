//! Tensors one after another.

use crate::error::Result;
use crate::ops::Concat;
use crate::reference::index::{around, room, sizes, step_bytes};
use crate::reference::{Run, View};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Concat {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let mut out = room(operands.iter().map(|x| x.bytes.len()).sum())?;
        let Some(first) = operands.first() else { return Ok(vec![out]) };
        let (outer, _, _) = around(&sizes(&first.ty.shape)?, self.axis)?;
        for o in 0..outer {
            for x in operands.iter().filter(|x| !x.bytes.is_empty()) {
                let (_, n, _) = around(&sizes(&x.ty.shape)?, self.axis)?;
                let bytes = n * step_bytes(x.ty, self.axis)?;
                out.extend_from_slice(&x.bytes[o * bytes..][..bytes]);
            }
        }
        Ok(vec![out])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Alias, Concat, Operator};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;

    #[test]
    fn operands_follow_each_other_on_the_axis() {
        let a = f32s(&[2, 1], &[1.0, 2.0]);
        let b = f32s(&[2, 2], &[3.0, 4.0, 5.0, 6.0]);
        let none = f32s(&[2, 0], &[]);
        let y = run1(Concat { axis: 1 }, &[&a, &none, &b, &a]);
        assert_eq!(y, [1.0, 3.0, 4.0, 1.0, 2.0, 5.0, 6.0, 2.0]);
        assert_eq!(run1(Concat { axis: 0 }, &[&a, &a]), [1.0, 2.0, 1.0, 2.0]);
        assert!(run1(Concat { axis: 1 }, &[&none, &none]).is_empty());
        assert!(run1(Concat { axis: 0 }, &[&none, &none]).is_empty());
    }

    #[test]
    fn sizes_add_up_on_the_axis_and_agree_on_all_others() {
        let concat = Concat { axis: 0 };
        assert_eq!(
            gives(concat.clone(), &["PAST_SEQx4xf16", "SEQx4xf16"]),
            ["tensor<PAST_SEQ+SEQx4xf16>"]
        );
        assert_eq!(
            refuses(concat.clone(), &["2x3xf32", "2x4xf32"]),
            "concat: operand 1 is tensor<2x4xf32>, expected the sizes of tensor<2x3xf32> but on axis 0"
        );
        assert!(
            refuses(concat.clone(), &["2x3xf32", "3xf32"]).contains("operand 1 is tensor<3xf32>")
        );
        assert!(refuses(concat.clone(), &["2xf32", "2xf16"]).contains("expected one element type"));
        assert!(refuses(Concat { axis: 1 }, &["2xf32"]).contains("it has no axis 1"));
        assert!(refuses(concat.clone(), &["1x32xq8_0"]).contains("tensor<1x32xq8_0>"));
        assert_eq!(refuses(concat.clone(), &[]), "concat takes an operand at least, got 0");
        let huge = alloc::format!("{}xu8", u64::MAX);
        assert_eq!(refuses(concat.clone(), &[&huge, "1xu8"]), "a size overflows 64 bits");
        assert_eq!(text(concat.clone(), &["2xf32", "3xf32"]), "concat {axis = 0}");
        let view = Alias::View { operand: 0, byte_offset: 0 };
        assert_eq!(concat.alias(&[&ty("2xf32")]), view);
        assert_eq!(concat.alias(&[&ty("2xf32"), &ty("2xf32")]), Alias::None);
    }
}
