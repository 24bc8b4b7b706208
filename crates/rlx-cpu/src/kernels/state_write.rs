//! state_write state[.., at + i, ..] = x[.., i, ..], a start that puts slices past the end moved back
//! shapes      state of any type, x of the same with fewer slices on the axis, at u32[1]
//! bytes       x twice
//! shares      runs of the state's bytes
//! numerics    a copy

use super::{Kernel, Planned, around};
use crate::place::Split;
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::StateWrite;
use rlx_core::target::Target;
use rlx_core::types::Type;

struct Write {
    outer: usize,
    /// Slices of the state and of x for each index of the axes before, and bytes of one.
    n: usize,
    new: usize,
    bytes: usize,
}

pub(super) fn takes(op: &StateWrite, operands: &[&Type], _: &Target) -> Result<(), String> {
    let StateWrite { axis: _ } = op;
    match operands {
        [state, x, ..] if state.dtype != x.dtype => {
            Err(format!("its kernel writes no {} to {}", x.dtype, state.dtype))
        }
        _ => Ok(()),
    }
}

pub(super) fn plan(op: &StateWrite, step: &Step) -> Result<Planned> {
    let ([outer, n, _], [_, new, _]) =
        (around(&step.operands[0], op.axis)?, around(&step.operands[1], op.axis)?);
    let bytes = (step.operands[0].bytes as usize).checked_div(outer * n).unwrap_or(0);
    let kernel = Write { outer, n, new, bytes };
    Ok(Planned::new(kernel, &[Split::Flat(64)], step.operands[1].bytes as usize))
}

impl Kernel for Write {
    fn run(&self, cx: &mut Cx<'_>) {
        let at = cx.slice::<u32>(2).first().map_or(0, |at| *at as usize).min(self.n - self.new);
        let (x, share) = (cx.bytes(1), cx.result(0).columns::<u8>());
        let run = self.new * self.bytes;
        for outer in 0..self.outer {
            let start = (outer * self.n + at) * self.bytes;
            let (from, to) = (start.max(share.start), (start + run).min(share.end));
            if from < to {
                let x = &x[outer * run + from - start..][..to - from];
                let state = cx.result(0).row::<u8>(0);
                state[from - share.start..to - share.start].copy_from_slice(x);
            }
        }
    }
}
