//! Updates added at indices.

use crate::error::Result;
use crate::ops::ScatterAdd;
use crate::reference::index::{around, place, sizes};
use crate::reference::view::{int_bytes, scalar_bytes};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for ScatterAdd {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [target, ids, updates] = operands else { return Err(arity("scatter_add")) };
        let around = around(&sizes(&target.ty.shape)?, self.axis)?;
        let (ids, dtype) = (ids.i64s()?, target.ty.dtype);
        if dtype.is_float() {
            let mut y = target.f64s()?;
            add(&mut y, &updates.f64s()?, &ids, around, |a, b| a + b);
            return Ok(vec![scalar_bytes(dtype, &y)?]);
        }
        let mut y = target.i64s()?;
        add(&mut y, &updates.i64s()?, &ids, around, i64::wrapping_add);
        Ok(vec![int_bytes(dtype, &y)?])
    }
}

fn add<T: Copy>(
    y: &mut [T],
    updates: &[T],
    ids: &[i64],
    (outer, n, inner): (usize, usize, usize),
    sum: impl Fn(T, T) -> T,
) {
    if y.is_empty() {
        return;
    }
    for o in 0..outer {
        for (k, &id) in ids.iter().enumerate() {
            let at = place(id, n);
            if !(0..n as i64).contains(&at) {
                continue;
            }
            for i in 0..inner {
                let y = &mut y[(o * n + at as usize) * inner + i];
                *y = sum(*y, updates[(o * ids.len() + k) * inner + i]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::ScatterAdd;
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;

    const ROWS: ScatterAdd = ScatterAdd { axis: 0 };

    #[test]
    fn slices_are_added_and_ids_may_repeat() {
        let target = f32s(&[3, 2], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
        let updates = f32s(&[3, 2], &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        let y = run1(ROWS, &[&target, &u32s(&[3], &[2, 0, 2]), &updates]);
        assert_eq!(y, [31.0, 41.0, 2.0, 2.0, 63.0, 83.0]);
        let columns = f32s(&[3, 1], &[5.0, 6.0, 7.0]);
        let y = run1(ScatterAdd { axis: 1 }, &[&target, &u32s(&[1], &[1]), &columns]);
        assert_eq!(y, [1.0, 6.0, 2.0, 8.0, 3.0, 10.0]);
    }

    #[test]
    fn ids_outside_add_nothing_and_negative_ones_count_from_the_end() {
        let target = f32s(&[2], &[1.0, 2.0]);
        let ids = integers(DType::I64, &[5], &[-1, -2, -3, 2, i64::MIN]);
        assert_eq!(run1(ROWS, &[&target, &ids, &f32s(&[5], &[10.0; 5])]), [11.0, 12.0]);
        assert_eq!(run1(ROWS, &[&target, &u32s(&[0], &[]), &f32s(&[0], &[])]), [1.0, 2.0]);
        let none = f32s(&[0], &[]);
        assert!(run1(ROWS, &[&none, &u32s(&[1], &[0]), &f32s(&[1], &[1.0])]).is_empty());
    }

    #[test]
    fn halves_round_once_and_integers_wrap() {
        let target = numbers(DType::F16, &[1], &[2048.0]);
        let updates = numbers(DType::F16, &[2], &[1.0, 1.0]);
        assert_eq!(run_f64s(ROWS, &[&target, &u32s(&[2], &[0, 0]), &updates]), [2050.0]);
        let one = |x| integers(DType::I64, &[1], &[x]);
        assert_eq!(run_ints(ROWS, &[&one(i64::MAX), &u32s(&[1], &[0]), &one(1)]), [i64::MIN]);
        assert_eq!(run_ints(ROWS, &[&one(1 << 53), &u32s(&[1], &[0]), &one(1)]), [(1 << 53) + 1]);
    }

    #[test]
    fn its_parts_give_its_results() {
        let (target, updates) = (noise(60, 16), noise(60, 17));
        for axis in 0..3 {
            let (mut dims, op) = ([3, 4, 5], ScatterAdd { axis });
            dims[axis] = 2;
            let n = dims.iter().product::<u64>() as usize;
            for (dtype, ids) in [(DType::U32, [1, 1]), (DType::I32, [-1, 0]), (DType::I64, [7, -3])]
            {
                let ids = integers(dtype, &[2], &ids);
                let operands = [&f32s(&[3, 4, 5], &target), &ids, &f32s(&dims, &updates[..n])];
                decomposes(op.clone(), &operands, 3e-7);
                let operands = [&halfs(&[3, 4, 5], &target), &ids, &halfs(&dims, &updates[..n])];
                decomposes(op.clone(), &operands, 1e-3);
            }
        }
        let bad = f32s(&[2], &[f32::NAN, 1.0]);
        decomposes(ROWS, &[&f32s(&[3], &[0.0; 3]), &u32s(&[2], &[9, 1]), &bad], 0.0);
    }

    #[test]
    fn updates_are_as_many_slices_as_there_are_ids() {
        assert_eq!(gives(ROWS, &["8x4xf16", "SEQxu32", "SEQx4xf16"]), ["tensor<8x4xf16>"]);
        assert_eq!(
            refuses(ROWS, &["8x4xf32", "3xu32", "2x4xf32"]),
            "scatter_add: target is tensor<8x4xf32>, ids is tensor<3xu32>, updates is tensor<2x4xf32>; \
             expected ids of rank 1 and as many slices of the target along axis 0"
        );
        assert!(
            refuses(ROWS, &["8x4xf32", "3x1xu32", "3x4xf32"]).contains("expected ids of rank 1")
        );
        assert!(
            refuses(ROWS, &["8x4xf32", "3xu32", "3x4xf16"]).contains("expected one element type")
        );
        assert!(refuses(ROWS, &["8x4xbool", "3xu32", "3x4xbool"]).contains("tensor<8x4xbool>"));
        assert_eq!(text(ROWS, &["8x4xf32", "3xu32", "3x4xf32"]), "scatter_add {axis = 0}");
    }
}
