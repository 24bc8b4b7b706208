//! any operator    the oracle's loops over the step's bytes
//! shapes      whatever the type rule takes, bodies of control flow included
//! bytes       every operand and result, and copies of both
//! shares      one worker does it
//! numerics    `rlx_core::reference`: f64 inside, rounded once

use super::{Kernel, Planned};
use crate::place::Split;
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::reference::{View, run_regions};

struct Loops(Step);

pub(super) fn plan(step: &Step) -> Planned {
    Planned::new(Loops(step.clone()), &vec![Split::First; step.results.len()], 0)
}

impl Loops {
    /// Results before any of them is written: one may lie where an operand does.
    fn compute(&self, cx: &mut Cx<'_>) -> Result<Vec<Vec<u8>>> {
        let step = &self.0;
        let mut overwritten = vec![Vec::new(); step.operands.len()];
        for (i, operand) in step.operands.iter().enumerate() {
            let here = |r: &rlx_core::ir::lir::Slice| {
                (r.space, r.index, r.offset) == (operand.space, operand.index, operand.offset)
            };
            // What the step writes is shown by its result alone.
            if let Some(r) = step.results.iter().position(here) {
                let share = cx.result(r);
                for row in share.rows.clone() {
                    overwritten[i].extend_from_slice(share.row(row));
                }
            }
        }
        let operands: Vec<View<'_>> = step
            .operands
            .iter()
            .zip(&overwritten)
            .enumerate()
            .map(|(i, (slice, kept))| {
                View::new(&slice.ty, if kept.is_empty() { cx.bytes(i) } else { kept })
            })
            .collect();
        run_regions(&step.op, &step.regions, &operands)
    }
}

impl Kernel for Loops {
    fn run(&self, cx: &mut Cx<'_>) {
        match self.compute(cx) {
            Ok(results) => {
                for (i, bytes) in results.iter().enumerate() {
                    let share = cx.result(i);
                    let rows = share.rows.clone();
                    let row_bytes = bytes.len().checked_div(rows.len()).unwrap_or(0);
                    for row in rows {
                        share.row(row).copy_from_slice(&bytes[row * row_bytes..][..row_bytes]);
                    }
                }
            }
            Err(e) => cx.fail(e.at(self.0.label.clone())),
        }
    }
}
