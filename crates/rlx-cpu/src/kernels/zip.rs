//! zip         y = f(a, b)
//! shapes      a, y f32[rows, dim]   b as a, f32[dim], f32[rows, 1] or one; a and y may be one; all else by
//!             `elementwise`
//! bytes       12 per element
//! shares      y's rows, or columns of them where they are few
//! numerics    rounded once; pow within the reference's f64

#[cfg(feature = "graphs")]
use super::elementwise;
use super::{Kernel, Planned, by_elements, claim, math, rows_of};
use crate::view::Cx;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Binary, Zip};
#[cfg(feature = "graphs")]
use rlx_core::ops::{Operator, StepFn};
use rlx_core::target::Target;
use rlx_core::types::{Dim, Shape, Type};
use rlx_core::{Error, Result};

struct ZipKernel {
    f: Binary,
    b: Repeat,
    width: usize,
}

/// How b repeats to a.
#[derive(Clone, Copy, PartialEq)]
enum Repeat {
    No,
    /// One row for all.
    Row,
    /// One element for each row.
    Column,
    /// One element.
    One,
}

impl Repeat {
    fn of(a: &Shape, b: &Shape) -> Option<Repeat> {
        let ones = |dims: &[Dim]| dims.iter().all(|d| d.as_static() == Some(1));
        match (a.0.as_slice(), b.0.as_slice()) {
            _ if a == b => Some(Repeat::No),
            ([_, ..], b) if b.len() <= a.rank() && ones(b) => Some(Repeat::One),
            ([.., of_a], [of_b]) if of_a == of_b => Some(Repeat::Row),
            ([of_a @ .., _], [of_b @ .., last]) if of_a == of_b && last.as_static() == Some(1) => {
                Some(Repeat::Column)
            }
            _ => None,
        }
    }
}

pub(super) fn takes(op: &Zip, operands: &[&Type], _: &Target) -> Result<(), String> {
    let Zip { f: _ } = op;
    let plain = rows(operands);
    #[cfg(feature = "graphs")]
    let plain =
        plain.or_else(|_| elementwise::takes(operands, &op.infer(operands).map_err(|e| e.what)?));
    plain
}

/// Fails unless the operands are f32, and the second one repeats to the first one's shape.
fn rows(operands: &[&Type]) -> Result<(), String> {
    claim::floats(operands)?;
    let [a, b] = operands else { return Err("its kernel takes two operands".into()) };
    match Repeat::of(&a.shape, &b.shape) {
        Some(_) => Ok(()),
        None => {
            Err("its kernel takes two operands of one shape, or a row, a column or a number".into())
        }
    }
}

pub(super) fn plan(op: &Zip, step: &Step) -> Result<Planned> {
    #[cfg(feature = "graphs")]
    if rows(&[&step.operands[0].ty, &step.operands[1].ty]).is_err() {
        return elementwise::plan_one(StepFn::Zip(op.f), step);
    }
    let [a, b] = [0, 1].map(|i| &step.operands[i].ty.shape);
    let b = Repeat::of(a, b).ok_or_else(|| Error::internal("zip: shapes"))?;
    let work = step.results[0].bytes as usize;
    let (rows, width) = rows_of(&step.results[0])?;
    Ok(Planned::new(ZipKernel { f: op.f, b, width }, &[by_elements(rows)], work))
}

/// `y = f(y, b)`.
fn number(f: Binary, y: &mut [f32], b: f32) {
    y.iter_mut().for_each(|y| *y = f.eval((*y).into(), b.into()) as f32);
}

impl Kernel for ZipKernel {
    fn run(&self, cx: &mut Cx<'_>) {
        let (a, b) = (cx.slice::<f32>(0), cx.slice::<f32>(1));
        let (columns, rows) = (cx.result(0).columns::<f32>(), cx.result(0).rows.clone());
        let width = self.width;
        for r in rows.start..cx.real(rows.end) {
            let y = cx.result(0).row(r);
            if !a.is_empty() {
                y.copy_from_slice(&a[r * width..][columns.clone()]);
            }
            if b.is_empty() {
                // b is a, and both are y.
                y.iter_mut().for_each(|y| *y = self.f.eval((*y).into(), (*y).into()) as f32);
            } else {
                match self.b {
                    Repeat::No => math::zip(self.f, y, &b[r * width..][columns.clone()]),
                    Repeat::Row => math::zip(self.f, y, &b[columns.clone()]),
                    Repeat::Column => number(self.f, y, b[r]),
                    Repeat::One => number(self.f, y, b[0]),
                }
            }
        }
    }
}
