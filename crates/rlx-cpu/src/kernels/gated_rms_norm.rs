//! gated_rms_norm  y[r, c] = act(gate[r, c]) x[r, c] w[c] / sqrt(mean(x[r, :]^2) + eps)
//! shapes          x, gate, y f32[rows.., dim]   w f32[dim]
//! bytes           16 per element, x twice from cache
//! shares          whole rows
//! numerics        f32, 16 partial sums

use super::math::Function;
use super::{Kernel, Planned, claim, rms_norm, rows_of};
use crate::place::Split;
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::GatedRmsNorm;
use rlx_core::target::Target;
use rlx_core::types::Type;

struct Norm {
    eps: f32,
    act: Function,
    dim: usize,
}

pub(super) fn takes(op: &GatedRmsNorm, operands: &[&Type], _: &Target) -> Result<(), String> {
    let GatedRmsNorm { eps: _, act: _ } = op;
    claim::floats(operands)
}

pub(super) fn plan(op: &GatedRmsNorm, step: &Step) -> Result<Planned> {
    let (rows, dim) = rows_of(&step.operands[0])?;
    let kernel = Norm { eps: op.eps, act: op.act.into(), dim };
    Ok(Planned::new(kernel, &[Split::Runs(rows)], 2 * rows * dim))
}

std::thread_local! {
    /// A row's gate.
    static GATE: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

impl Kernel for Norm {
    fn run(&self, cx: &mut Cx<'_>) {
        let level = cx.level;
        let [x, w, gate] = [0, 1, 2].map(|i| cx.slice::<f32>(i));
        let rows = cx.result(0).rows.clone();
        GATE.with_borrow_mut(|of_row| {
            for r in rows.start..cx.real(rows.end) {
                let at = r * self.dim..(r + 1) * self.dim;
                of_row.clear();
                of_row.extend_from_slice(&gate[at.clone()]);
                self.act.apply(level, of_row);
                let y = cx.result(0).row::<f32>(r);
                rms_norm::row(level, &x[at], w, self.eps, y);
                y.iter_mut().zip(of_row.iter()).for_each(|(y, gate)| *y *= gate);
            }
        });
    }
}
