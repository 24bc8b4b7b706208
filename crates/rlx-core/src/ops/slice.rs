//! A range of one axis.

use super::{Alias, Class, Operator, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{Binding, Dim, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `slice x -> y`: `y[.., i, ..] = x[.., start + i * step, ..]` for `i` of `0..len` on `axis`. Any
/// type; packed ones not on the last axis. A state may be read so. A step of 1 on the outermost
/// axis that is not 1 is a view, where the place is known and a multiple of 4 bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The axis.
    pub axis: usize,
    /// The first index.
    pub start: Dim,
    /// How many results.
    pub len: Dim,
    /// From one index to the next; negative runs backwards, 0 is an error.
    pub step: i64,
}

attributes! { Slice { axis, start, len, step = 1 } }

impl Slice {
    /// Fails for an index outside of `0..size`, as far as sizes are known.
    fn check(&self, x: &Type, size: &Dim) -> Result<()> {
        let fail = || {
            Error::bad_graph(format!(
                "slice: x is {x}, axis {} has no {} elements from {} in steps of {}",
                self.axis, self.len, self.start, self.step
            ))
        };
        if self.step == 0 {
            return Err(fail());
        }
        let (Some(n), Some(len), Some(start)) =
            (size.as_static(), self.len.as_static(), self.start.as_static())
        else {
            return Ok(());
        };
        // An i128 has room for any product of a u64 and an i64.
        let last = i128::from(start) + i128::from(len.saturating_sub(1)) * i128::from(self.step);
        let within = |at: i128| at >= 0 && at < i128::from(n);
        let fits = if len == 0 { start <= n } else { within(start.into()) && within(last) };
        if fits { Ok(()) } else { Err(fail()) }
    }
}

/// True where the axes of `shape` but the first `axis` are such that a run of indices on `axis` is
/// one run of bytes: every axis before it is 1.
fn outermost(shape: &Shape, axis: usize) -> bool {
    shape.0.iter().take(axis).all(|d| d.as_static() == Some(1))
}

impl Operator for Slice {
    const NAME: &'static str = "slice";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("slice", operands, 1)?;
        let x = operands[0];
        rules::has_axis("slice", x, self.axis)?;
        if x.dtype.is_block() && self.axis + 1 == x.shape.rank() {
            return Err(Error::bad_graph(format!("slice: x is {x}, packed rows stay whole")));
        }
        self.check(x, &x.shape.0[self.axis])?;
        let mut shape = x.shape.clone();
        shape.0[self.axis] = self.len.clone();
        Ok(vec![Type::tensor(x.dtype, shape)])
    }

    fn alias(&self, operands: &[&Type]) -> Alias {
        let at = operands.first().and_then(|x| {
            let run = self.step == 1 && outermost(&x.shape, self.axis);
            let whole = self.step == 1 && x.shape.0.get(self.axis) == Some(&self.len);
            if !run && !whole {
                return None;
            }
            if self.start.as_static() == Some(0) {
                return Some(0);
            }
            // Rows of the last axis within one index of this one; an element where this is last.
            let inner = x.shape.0.get(self.axis + 1..)?;
            let row = inner.last().map_or(Some(1), Dim::as_static)?;
            let rows =
                inner.iter().rev().skip(1).try_fold(1u64, |n, d| n.checked_mul(d.as_static()?))?;
            let bytes = x.dtype.row_bytes(row)?.checked_mul(rows)?;
            bytes.checked_mul(self.start.as_static()?).filter(|at| at.is_multiple_of(4))
        });
        at.map_or(Alias::None, |byte_offset| Alias::View { operand: 0, byte_offset })
    }

    fn bind(&mut self, binding: &Binding) -> Result<()> {
        self.start = self.start.bind(binding)?;
        self.len = self.len.bind(binding)?;
        Ok(())
    }
}
