//! concat      y = operands one after another along an axis
//! shapes      any, of any scalar type
//! bytes       operands and y once
//! shares      runs of y's bytes
//! numerics    a copy

use super::{Kernel, Planned, around};
use crate::place::Split;
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops;
use rlx_core::target::Target;
use rlx_core::types::Type;

struct Concat {
    /// Bytes that each operand has for each index of the axes before.
    runs: Vec<usize>,
}

pub(super) fn takes(op: &ops::Concat, _: &[&Type], _: &Target) -> Result<(), String> {
    let ops::Concat { axis: _ } = op;
    Ok(())
}

pub(super) fn plan(op: &ops::Concat, step: &Step) -> Result<Planned> {
    let size = step.results[0].ty.dtype.block_bytes();
    let runs = step.operands.iter().map(|x| {
        let [_, n, inner] = around(x, op.axis)?;
        Ok(n * inner * size)
    });
    let kernel = Concat { runs: runs.collect::<Result<_>>()? };
    Ok(Planned::new(kernel, &[Split::Flat(64)], step.results[0].bytes as usize))
}

impl Kernel for Concat {
    fn run(&self, cx: &mut Cx<'_>) {
        let whole: usize = self.runs.iter().sum();
        let share = cx.result(0).columns::<u8>();
        let mut at = share.start;
        while at < share.end {
            let (outer, mut inside) = (at / whole, at % whole);
            // The operand that has this byte.
            let mut i = 0;
            while inside >= self.runs[i] {
                inside -= self.runs[i];
                i += 1;
            }
            let len = (self.runs[i] - inside).min(share.end - at);
            let from = &cx.bytes(i)[outer * self.runs[i] + inside..][..len];
            cx.result(0).row::<u8>(0)[at - share.start..][..len].copy_from_slice(from);
            at += len;
        }
    }
}
