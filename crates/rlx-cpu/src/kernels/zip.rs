//! zip         y = f(a, b)
//! shapes      a, y f32[rows, dim]   b as a, or f32[dim]; a and y may be one; all else by `elementwise`
//! bytes       12 per element
//! shares      columns of y's rows
//! numerics    rounded once; pow within the reference's f64

#[cfg(feature = "graphs")]
use super::elementwise;
use super::{Kernel, Planned, claim, math};
use crate::place::Split;
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Binary, Zip};
#[cfg(feature = "graphs")]
use rlx_core::ops::{Operator, StepFn};
use rlx_core::target::Target;
use rlx_core::types::Type;

struct ZipKernel {
    f: Binary,
    /// b has one row that is used for all.
    repeats: bool,
}

pub(super) fn takes(op: &Zip, operands: &[&Type], _: &Target) -> Result<(), String> {
    let Zip { f: _ } = op;
    let plain = rows(operands);
    #[cfg(feature = "graphs")]
    let plain =
        plain.or_else(|_| elementwise::takes(operands, &op.infer(operands).map_err(|e| e.what)?));
    plain
}

/// Fails unless the operands are f32 of one shape, or the second one is a row.
fn rows(operands: &[&Type]) -> Result<(), String> {
    claim::floats(operands)?;
    let [a, b] = operands else { return Err("its kernel takes two operands".into()) };
    let row = b.shape.rank() == 1 && a.shape.rank() > 0 && b.shape.last() == a.shape.last();
    if a.shape == b.shape || row {
        return Ok(());
    }
    Err("its kernel takes two operands of one shape, or a row".into())
}

pub(super) fn plan(op: &Zip, step: &Step) -> Result<Planned> {
    #[cfg(feature = "graphs")]
    if rows(&[&step.operands[0].ty, &step.operands[1].ty]).is_err() {
        return elementwise::plan_one(StepFn::Zip(op.f), step);
    }
    let repeats = step.operands[1].ty.shape != step.operands[0].ty.shape;
    let work = step.results[0].bytes as usize;
    Ok(Planned::new(ZipKernel { f: op.f, repeats }, &[Split::Columns(64)], work))
}

impl Kernel for ZipKernel {
    fn run(&self, cx: &mut Cx<'_>) {
        let (a, b) = (cx.slice::<f32>(0), cx.slice::<f32>(1));
        let (columns, rows) = (cx.result(0).columns::<f32>(), cx.result(0).rows.clone());
        let width = a.len().max(if self.repeats { 0 } else { b.len() }) / rows.len().max(1);
        for r in 0..cx.real(rows.end) {
            let y = cx.result(0).row(r);
            if !a.is_empty() {
                y.copy_from_slice(&a[r * width..][columns.clone()]);
            }
            if b.is_empty() {
                // b is a, and both are y.
                y.iter_mut().for_each(|y| *y = self.f.eval((*y).into(), (*y).into()) as f32);
            } else {
                let start = if self.repeats { 0 } else { r * width };
                math::zip(self.f, y, &b[start..][columns.clone()]);
            }
        }
    }
}
