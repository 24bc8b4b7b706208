//! Elements repeated to a larger shape.

use crate::error::Result;
use crate::ops::Expand;
use crate::reference::index::{pick, repeated, sizes};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Expand {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("expand")) };
        let to = sizes(&self.dims)?;
        let mut from = repeated(&sizes(&x.ty.shape)?, &to)?.into_iter();
        Ok(vec![pick(x, &to, |_| from.next().unwrap_or(usize::MAX))?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Alias, Expand, Operator};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::{Dim, Shape};

    fn expand(dims: &[u64]) -> Expand {
        Expand { dims: Shape::of(dims) }
    }

    #[test]
    fn axes_of_1_and_new_ones_repeat() {
        let x = f32s(&[2, 1], &[1.0, 2.0]);
        assert_eq!(run1(expand(&[2, 3]), &[&x]), [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
        assert_eq!(run1(expand(&[2, 2, 1]), &[&x]), [1.0, 2.0, 1.0, 2.0]);
        assert_eq!(run1(expand(&[3]), &[&f32s(&[], &[7.0])]), [7.0; 3]);
        assert!(run1(expand(&[2, 0]), &[&x]).is_empty());
    }

    #[test]
    fn a_shape_that_x_does_not_repeat_to_is_refused() {
        let op = Expand { dims: Shape([Dim::symbol("SEQ"), 4u64.into()].into()) };
        assert_eq!(gives(op.clone(), &["1x4xbool"]), ["tensor<SEQx4xbool>"]);
        assert_eq!(text(op, &["4xf32"]), "expand {dims = [SEQ, 4]}");
        assert_eq!(
            refuses(expand(&[3, 2]), &["3x4xf32"]),
            "expand: x is tensor<3x4xf32>, it does not repeat to tensor<3x2xf32>"
        );
        assert!(refuses(expand(&[1]), &["3xf32"]).contains("it does not repeat to tensor<1xf32>"));
        assert!(
            refuses(expand(&[3]), &["1x3xf32"]).contains("it does not repeat to tensor<3xf32>")
        );
        assert!(
            refuses(expand(&[3]), &["SEQxf32"]).contains("it does not repeat to tensor<3xf32>")
        );
        assert!(
            fails(expand(&[1 << 40, 1 << 40]), &[&f32s(&[], &[1.0])])
                .what
                .contains("overflows 64 bits")
        );
        assert_eq!(fails(expand(&[1 << 45]), &[&f32s(&[], &[1.0])]).code, crate::Code::OutOfMemory);
    }

    #[test]
    fn where_nothing_repeats_it_is_a_view() {
        let alias = |dims: &[u64], x| expand(dims).alias(&[&ty(x)]);
        let view = Alias::View { operand: 0, byte_offset: 0 };
        assert_eq!(alias(&[2, 3], "2x3xf32"), view);
        assert_eq!(alias(&[1, 1, 3], "3xf32"), view);
        assert_eq!(alias(&[2, 3], "3xf32"), Alias::None);
        assert_eq!(alias(&[2, 3], "2x1xf32"), Alias::None);
    }
}
