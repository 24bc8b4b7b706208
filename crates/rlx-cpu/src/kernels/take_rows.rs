//! take_rows   y[i, :] = x[max(len - rows + i, 0), :]
//! shapes      x f32[s, d]   y f32[rows, d]
//! bytes       8 per element of y
//! shares      columns of y
//! numerics    a copy

use super::{Kernel, Planned, claim, control, dims};
use crate::place::Split;
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops;
use rlx_core::target::Target;
use rlx_core::types::Type;

struct TakeRows {
    seq: usize,
    width: usize,
}

pub(super) fn takes(op: &ops::TakeRows, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ops::TakeRows { rows: _ } = op;
    claim::floats(operands)?;
    claim::matrix(operands)
}

pub(super) fn plan(_: &ops::TakeRows, step: &Step) -> Result<Planned> {
    let [seq, width] = dims(&step.operands[0])?;
    let work = step.results[0].bytes as usize;
    Ok(Planned::new(TakeRows { seq, width }, &[Split::Columns(64)], work))
}

impl Kernel for TakeRows {
    fn run(&self, cx: &mut Cx<'_>) {
        let x = cx.slice::<f32>(0);
        let len = control(cx.slice(1)).len.min(self.seq);
        let (columns, rows) = (cx.result(0).columns::<f32>(), cx.result(0).rows.end);
        for i in 0..rows {
            let from = (len + i).saturating_sub(rows).min(self.seq.saturating_sub(1));
            let row = &x[from * self.width..][columns.clone()];
            cx.result(0).row(i).copy_from_slice(row);
        }
    }
}
