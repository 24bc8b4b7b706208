//! Sums, means, extremes and products along axes.

use super::index::{each_index, filled, sizes, strides};
use super::view::{int_bytes, scalar_bytes};
use super::{View, arity};
use crate::error::{Error, Result};
use crate::ops::{Reduce, Reduction};
use crate::types::{DType, Scalar};
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Reduce, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("reduce")) };
    let dims = sizes(&x.ty.shape)?;
    // Sizes with 1 where an axis goes: the result's elements in the same order.
    let kept: Vec<usize> =
        dims.iter().enumerate().map(|(i, &n)| if op.axes.contains(&i) { 1 } else { n }).collect();
    let strides = strides(&kept);
    let n = kept.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    let n = n.ok_or_else(|| Error::bad_graph("reduce: the result is too large"))?;
    let to = |index: &[usize]| -> usize {
        let own = index.iter().zip(&kept).zip(&strides);
        own.map(|((&i, &n), &stride)| if n == 1 { 0 } else { i * stride }).sum()
    };
    let dtype = x.ty.dtype;
    let mut from = 0;
    if dtype.is_float() {
        let x = x.f64s()?;
        let mut y = filled(n, op.f.start())?;
        each_index(&dims, |index| {
            let y = &mut y[to(index)];
            *y = op.f.step().eval(*y, x[from]);
            from += 1;
        });
        if op.f == Reduction::Mean {
            let count: f64 = op.axes.iter().map(|&axis| dims[axis] as f64).product();
            y.iter_mut().for_each(|y| *y /= count);
        }
        return Ok(vec![scalar_bytes(dtype, &y)?]);
    }
    let x = x.i64s()?;
    let mut y = filled(n, start(op.f, dtype))?;
    each_index(&dims, |index| {
        let y = &mut y[to(index)];
        // Neither a division nor a power: there is always a value.
        *y = op.f.step().eval_int(*y, x[from]).unwrap_or(*y);
        from += 1;
    });
    Ok(vec![int_bytes(dtype, &y)?])
}

/// What a fold of integers begins with.
fn start(f: Reduction, dtype: DType) -> i64 {
    let (least, largest) = match dtype {
        DType::Scalar(Scalar::I32) => (i32::MIN.into(), i32::MAX.into()),
        DType::Scalar(Scalar::I16) => (i16::MIN.into(), i16::MAX.into()),
        DType::Scalar(Scalar::I8) => (i8::MIN.into(), i8::MAX.into()),
        DType::Scalar(Scalar::U32) => (0, u32::MAX.into()),
        DType::Scalar(Scalar::U8) => (0, u8::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    };
    match f {
        Reduction::Sum | Reduction::Mean => 0,
        Reduction::Max => least,
        Reduction::Min => largest,
        Reduction::Prod => 1,
    }
}
