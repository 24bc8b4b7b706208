//! Indices along an axis.

use crate::error::Result;
use crate::ops::Iota;
use crate::reference::index::{each_index, room, sizes};
use crate::reference::view::{int_bytes, scalar_bytes};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Iota {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [] = operands else { return Err(arity("iota")) };
        let dims = sizes(&self.dims)?;
        let mut y: Vec<i64> = room(dims.iter().product())?;
        each_index(&dims, |index| y.push(index[self.axis] as i64));
        if self.dtype.is_float() {
            let y: Vec<f64> = y.into_iter().map(|i| i as f64).collect();
            return Ok(vec![scalar_bytes(self.dtype, &y)?]);
        }
        Ok(vec![int_bytes(self.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::Iota;
    use crate::reference::type_rules::*;
    use crate::types::{DType, Dim, Shape};

    fn iota(dtype: DType, dims: &[u64], axis: usize) -> Iota {
        Iota { dtype, dims: Shape::of(dims), axis }
    }

    #[test]
    fn indices_count_along_the_axis() {
        assert_eq!(run_ints(iota(DType::U32, &[2, 3], 1), &[]), [0, 1, 2, 0, 1, 2]);
        assert_eq!(run_ints(iota(DType::I64, &[2, 3], 0), &[]), [0, 0, 0, 1, 1, 1]);
        assert_eq!(run_f64s(iota(DType::F16, &[3], 0), &[]), [0.0, 1.0, 2.0]);
        assert!(run_ints(iota(DType::U32, &[3, 0], 0), &[]).is_empty());
    }

    #[test]
    fn sizes_may_be_symbols_and_the_axis_must_be_there() {
        let op = Iota {
            dtype: DType::U32,
            dims: Shape([Dim::symbol("SEQ"), 4u64.into()].into()),
            axis: 0,
        };
        assert_eq!(gives(op.clone(), &[]), ["tensor<SEQx4xu32>"]);
        assert_eq!(text(op, &[]), "iota {type = u32, dims = [SEQ, 4], axis = 0}");
        assert_eq!(
            refuses(iota(DType::U32, &[2], 1), &[]),
            "iota: x is tensor<2xu32>, it has no axis 1"
        );
        assert!(refuses(iota(DType::BOOL, &[2], 0), &[]).contains("does not count"));
    }
}
