//! causal_conv1d  y[i, c] = act(sum_j w[c, j] p[i + j, c]), p the state's rows and then those of x
//!                gated, x has rows b, c, x: p goes on with b x, and y is c act(..)
//! shapes         x, y f32[s, c], gated x f32[s, 3 c]   w f32[c, k]   state f32[k - 1, c]
//! bytes          4 s c in (gated 12 s c) and out, 4 c k of taps, the state twice
//! shares         columns of y and of the state
//! numerics       f32, the oldest tap first

use super::math::Function;
use super::{Kernel, Planned, claim, control, dims};
use crate::place::Split;
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::CausalConv1d;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Columns are cut where cache lines end.
const GRANULE: usize = 64;

struct Conv {
    rows: usize,
    channels: usize,
    taps: usize,
    act: Option<Function>,
    gated: bool,
}

pub(super) fn takes(op: &CausalConv1d, operands: &[&Type], _: &Target) -> Result<(), String> {
    let CausalConv1d { act: _, gated: _ } = op;
    claim::floats_and_caches(operands)
}

pub(super) fn plan(op: &CausalConv1d, step: &Step) -> Result<Planned> {
    let [rows, _] = dims(&step.operands[0])?;
    let [channels, taps] = dims(&step.operands[1])?;
    let kernel = Conv { rows, channels, taps, act: op.act.map(Function::from), gated: op.gated };
    let splits = [Split::Columns(GRANULE), Split::Columns(GRANULE)];
    Ok(Planned::new(kernel, &splits, rows * channels * taps))
}

std::thread_local! {
    /// The state's rows before the step, the share's columns of them; gated, the rows behind them too.
    static BEFORE: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

impl Kernel for Conv {
    fn run(&self, cx: &mut Cx<'_>) {
        let (level, ctl) = (cx.level, control(cx.slice(3)));
        if ctl.done {
            return;
        }
        let (x, w) = (cx.slice::<f32>(0), cx.slice::<f32>(1));
        let columns = cx.result(0).columns::<f32>();
        let (n, past) = (columns.len(), self.taps - 1);
        let real = ctl.len.min(self.rows);
        let width = if self.gated { 3 * self.channels } else { self.channels };
        // Part `k` of a row, the share's columns of it.
        let part = |i: usize, k: usize| &x[i * width + k * self.channels..][columns.clone()];
        BEFORE.with_borrow_mut(|before| {
            before.clear();
            for r in 0..past {
                before.extend_from_slice(cx.result(1).row::<f32>(r));
            }
            if self.gated {
                for i in 0..real {
                    before.extend(part(i, 0).iter().zip(part(i, 2)).map(|(b, x)| b * x));
                }
            }
            // Row `i` of the state's rows and those of x behind them.
            let p = |i: usize| match i.checked_sub(past) {
                Some(i) if !self.gated => part(i, 0),
                _ => &before[i * n..][..n],
            };
            for i in 0..real {
                let y = cx.result(0).row::<f32>(i);
                y.fill(0.0);
                for tap in 0..self.taps {
                    let weights = w[columns.start * self.taps..].iter().skip(tap);
                    let weights = weights.step_by(self.taps);
                    for ((y, x), w) in y.iter_mut().zip(p(i + tap)).zip(weights) {
                        *y += x * w;
                    }
                }
                if let Some(f) = self.act {
                    f.apply(level, y);
                }
                if self.gated {
                    y.iter_mut().zip(part(i, 1)).for_each(|(y, c)| *y *= c);
                }
            }
            for r in 0..past {
                cx.result(1).row::<f32>(r).copy_from_slice(p(real + r));
            }
        });
    }
}
