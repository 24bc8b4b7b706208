//! The same elements under another shape: a view.

use crate::error::Result;
use crate::ops::Reshape;
use crate::reference::{Run, View, view};
use alloc::vec::Vec;

impl Run for Reshape {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        view(self, operands)
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Alias, Operator, Reshape};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::{Binding, DType, Dim, Shape};

    fn reshape(dims: &[u64]) -> Reshape {
        Reshape { dims: Shape::of(dims) }
    }

    #[test]
    fn elements_stay_in_their_order() {
        let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(run1(reshape(&[3, 1, 2]), &[&x]), x.f32s());
        assert_eq!(
            run_ints(reshape(&[]), &[&integers(DType::I64, &[1, 1], &[i64::MIN])]),
            [i64::MIN]
        );
        assert!(run1(reshape(&[7, 0]), &[&f32s(&[0, 2], &[])]).is_empty());
    }

    #[test]
    fn symbolic_sizes_have_one_product() {
        let rows = Dim::symbol("BATCH").mul(&Dim::symbol("SEQ")).unwrap();
        let mut op = Reshape { dims: Shape([rows, 4u64.into()].into()) };
        assert_eq!(gives(op.clone(), &["SEQxBATCHx2x2xf16"]), ["tensor<BATCH*SEQx4xf16>"]);
        assert_eq!(text(op.clone(), &["SEQxBATCHx4xf32"]), "reshape {dims = [BATCH*SEQ, 4]}");
        assert_eq!(
            refuses(op.clone(), &["SEQx4xf32"]),
            "reshape: x is tensor<SEQx4xf32>, it has no shape BATCH*SEQx4"
        );
        op.bind(&Binding::from([("BATCH".into(), 2), ("SEQ".into(), 3)])).unwrap();
        assert_eq!(gives(op, &["6x4xf32"]), ["tensor<6x4xf32>"]);
    }

    #[test]
    fn other_counts_states_and_broken_rows_are_refused() {
        assert_eq!(
            refuses(reshape(&[4]), &["2x3xf32"]),
            "reshape: x is tensor<2x3xf32>, it has no shape 4"
        );
        assert!(refuses(reshape(&[6]), &["state 6xf32"]).contains("state<6xf32>"));
        assert!(refuses(reshape(&[64]), &["2x32xq8_0"]).contains("tensor<2x32xq8_0>"));
        assert_eq!(gives(reshape(&[2, 1, 32]), &["2x32xq8_0"]), ["tensor<2x1x32xq8_0>"]);
        assert_eq!(refuses(reshape(&[1 << 40, 1 << 40]), &["4xf32"]), "a size overflows 64 bits");
        assert_eq!(
            reshape(&[4]).alias(&[&ty("4xf32")]),
            Alias::View { operand: 0, byte_offset: 0 }
        );
    }
}
