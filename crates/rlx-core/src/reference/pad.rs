//! Elements around a tensor.

use super::index::{each_index, room, sizes, strides};
use super::view::scalar_bytes;
use super::{View, arity};
use crate::error::{Error, Result};
use crate::ops::{Op, Pad, PadMode};
use crate::types::{DType, Scalar};
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Pad, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("pad")) };
    let dims = sizes(&x.ty.shape)?;
    let to = sizes(&Op::Pad(op.clone()).infer(&[x.ty])?[0].shape)?;
    let (strides, size) = (strides(&dims), x.ty.dtype.block_bytes());
    let value = match op.mode {
        PadMode::Constant(value) if x.ty.dtype == DType::Scalar(Scalar::C64) => {
            scalar_bytes(x.ty.dtype, &[value.into(), 0.0])?
        }
        PadMode::Constant(value) => scalar_bytes(x.ty.dtype, &[value.into()])?,
        _ => Vec::new(),
    };
    let mut out = room(to.iter().product::<usize>().saturating_mul(size))?;
    let mut bad = false;
    each_index(&to, |index| {
        let mut from = Some(0);
        for (axis, &i) in index.iter().enumerate() {
            let at = source(op.mode, i as i64 - op.low[axis] as i64, dims[axis] as i64);
            from = from.zip(at).map(|(from, at)| from + at * strides[axis]);
        }
        let bytes = match from {
            Some(at) => x.bytes.get(at * size..).and_then(|b| b.get(..size)),
            None => value.get(..size),
        };
        match bytes {
            Some(bytes) => out.extend_from_slice(bytes),
            None => bad = true,
        }
    });
    if bad { Err(Error::internal("pad: an index outside of x")) } else { Ok(vec![out]) }
}

/// The index on an axis of `n` that index `i` repeats; `None` for the constant.
fn source(mode: PadMode, i: i64, n: i64) -> Option<usize> {
    let at = match mode {
        _ if (0..n).contains(&i) => i,
        PadMode::Constant(_) => return None,
        PadMode::Reflect if i < 0 => -i,
        PadMode::Reflect => 2 * (n - 1) - i,
        PadMode::Replicate => i.clamp(0, (n - 1).max(0)),
        PadMode::Circular => i.rem_euclid(n.max(1)),
    };
    usize::try_from(at).ok()
}
