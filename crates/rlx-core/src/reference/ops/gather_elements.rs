//! One element an index.

use crate::error::{Error, Result};
use crate::ops::GatherElements;
use crate::reference::index::{pick, place, sizes, strides};
use crate::reference::{Run, View, arity};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Run for GatherElements {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, ids] = operands else { return Err(arity("gather_elements")) };
        let (dims, to) = (sizes(&x.ty.shape)?, sizes(&ids.ty.shape)?);
        let strides = strides(&dims);
        let n = dims[self.axis];
        if n == 0 && !ids.bytes.is_empty() {
            return Err(Error::bad_graph(format!(
                "gather_elements: x is {}, axis {} has no elements",
                x.ty, self.axis
            )));
        }
        let mut ids = ids.i64s()?.into_iter();
        let from = |index: &[usize]| {
            let id = place(ids.next().unwrap_or(0), n).clamp(0, n as i64 - 1) as usize;
            let at = |(axis, &i): (usize, &usize)| if axis == self.axis { id } else { i } * strides[axis];
            index.iter().enumerate().map(at).sum()
        };
        Ok(vec![pick(x, &to, from)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::GatherElements;
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;

    #[test]
    fn the_index_of_one_axis_is_replaced() {
        let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let y = run1(GatherElements { axis: 1 }, &[&x, &u32s(&[2, 2], &[2, 0, 1, 9])]);
        assert_eq!(y, [3.0, 1.0, 5.0, 6.0]);
        let ids = integers(DType::I32, &[1, 3], &[-1, 0, -9]);
        assert_eq!(run1(GatherElements { axis: 0 }, &[&x, &ids]), [4.0, 2.0, 3.0]);
        assert!(run1(GatherElements { axis: 1 }, &[&x, &u32s(&[2, 0], &[])]).is_empty());
        let none = f32s(&[2, 0], &[]);
        let e = fails(GatherElements { axis: 1 }, &[&none, &u32s(&[2, 1], &[0, 0])]);
        assert_eq!(e.what, "gather_elements: x is tensor<2x0xf32>, axis 1 has no elements");
    }

    #[test]
    fn its_parts_are_one_flat_look_up() {
        let x = f32s(&[3, 4, 5], &noise(60, 15));
        let ids: alloc::vec::Vec<i64> = (0..60).map(|i| i * 7 % 13 - 6).collect();
        for axis in 0..3 {
            let mut dims = [3, 4, 5];
            dims[axis] = 2;
            let n = dims.iter().product::<u64>() as usize;
            for dtype in [DType::I32, DType::I64, DType::U32] {
                let positive = |id: &i64| if dtype == DType::U32 { id.abs() } else { *id };
                let ids: alloc::vec::Vec<i64> = ids[..n].iter().map(positive).collect();
                let ids = integers(dtype, &dims, &ids);
                decomposes(GatherElements { axis }, &[&x, &ids], 0.0);
            }
        }
        let x = integers(DType::BOOL, &[1, 2], &[0, 1]);
        decomposes(GatherElements { axis: 1 }, &[&x, &u32s(&[1, 3], &[1, 0, 1])], 0.0);
        decomposes(GatherElements { axis: 0 }, &[&f32s(&[2], &[1.0, 2.0]), &u32s(&[1], &[1])], 0.0);
    }

    #[test]
    fn shapes_differ_on_the_axis_only() {
        let op = GatherElements { axis: 1 };
        assert_eq!(gives(op.clone(), &["SEQx8xf16", "SEQx2xi64"]), ["tensor<SEQx2xf16>"]);
        assert_eq!(
            refuses(op.clone(), &["2x3xf32", "4x3xu32"]),
            "gather_elements: x is tensor<2x3xf32>, ids is tensor<4x3xu32>; they may differ on axis 1 only"
        );
        assert!(refuses(op.clone(), &["2x3xf32", "3xu32"]).contains("ids is tensor<3xu32>"));
        assert!(
            refuses(op.clone(), &["2x3xf32", "2x3xf32"])
                .contains("expected a tensor of u32, i32 or i64")
        );
        assert!(refuses(op.clone(), &["3xf32", "3xu32"]).contains("it has no axis 1"));
        assert_eq!(text(op, &["2x3xf32", "2x1xu32"]), "gather_elements {axis = 1}");
    }
}
