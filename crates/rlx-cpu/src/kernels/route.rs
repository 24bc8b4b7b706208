//! route       ids[m, i], shares[m, i]: the experts of row m with the largest choice, and what they count for
//! shapes      logits f32[m, e]   bias f32[e]   ids u32[m, top_k]   shares f32[m, top_k]
//! bytes       4 per logit, which stay in cache; 8 per expert that is chosen
//! operations  an exponential for each logit, and a selection that is linear in them
//! shares      rows
//! numerics    f32, exp within 2 ulp; choices by logits alone are the reference's exactly

use super::math::Function;
use super::{Kernel, Planned, claim, dims, ranked};
use crate::place::Split;
use crate::simd::Level;
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{self, LEAST_SUM, Unary};
use rlx_core::target::Target;
use rlx_core::types::Type;

struct Route {
    op: ops::Route,
    experts: usize,
}

pub(super) fn takes(op: &ops::Route, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ops::Route {
        top_k: _,
        sigmoid: _,
        normalise: _,
        scale: _,
        choice_bias: _,
        groups: _,
        top_groups: _,
        group_sum: _,
    } = op;
    claim::floats(operands)
}

pub(super) fn plan(op: &ops::Route, step: &Step) -> Result<Planned> {
    let [m, experts] = dims(&step.operands[0])?;
    let kernel = Route { op: op.clone(), experts };
    Ok(Planned::new(kernel, &[Split::Rows; 2], 16 * m * experts))
}

/// Memory of a worker.
#[derive(Default)]
struct Scratch {
    scores: Vec<f32>,
    choice: Vec<f32>,
    of_groups: Vec<f32>,
    order: Vec<u64>,
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Route {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|scratch| {
            let (logits, rows) = (cx.slice::<f32>(0), cx.result(0).rows.clone());
            let bias: &[f32] = if self.op.choice_bias { cx.slice(1) } else { &[] };
            for r in rows.start..cx.real(rows.end) {
                let chosen = self.row(cx.level, &logits[r * self.experts..], bias, scratch);
                for (id, &(expert, _)) in cx.result(0).row::<u32>(r).iter_mut().zip(&chosen) {
                    *id = expert;
                }
                for (share, &(_, of)) in cx.result(1).row::<f32>(r).iter_mut().zip(&chosen) {
                    *share = of;
                }
            }
        });
    }
}

impl Route {
    /// A row's experts and their shares.
    fn row(
        &self,
        level: Level,
        logits: &[f32],
        bias: &[f32],
        scratch: &mut Scratch,
    ) -> Vec<(u32, f32)> {
        let Scratch { scores, choice, of_groups, order } = scratch;
        let (logits, op) = (&logits[..self.experts], &self.op);
        score(level, op.sigmoid, logits, scores);
        choice.clear();
        choice.extend_from_slice(if op.chooses_by_score() { scores } else { logits });
        choice.iter_mut().zip(bias).for_each(|(c, b)| *c += b);
        if op.has_groups() {
            let each = self.experts / op.groups;
            of_groups.clear();
            for group in choice.chunks_exact(each) {
                let best = best(group, op.group_sum, order);
                of_groups.push(best.map(|i| group[i]).sum());
            }
            let mut kept = vec![false; op.groups];
            best(of_groups, op.top_groups, order).for_each(|g| kept[g] = true);
            for (group, _) in choice.chunks_exact_mut(each).zip(kept).filter(|(_, kept)| !kept) {
                group.fill(f32::NEG_INFINITY);
            }
        }
        let mut chosen: Vec<(u32, f32)> =
            best(choice, op.top_k, order).map(|e| (e as u32, scores[e])).collect();
        let sum: f32 = chosen.iter().map(|c| c.1).sum();
        let divisor = if op.normalise { sum.max(LEAST_SUM) } else { 1.0 };
        let scale = op.scale.unwrap_or(1.0);
        chosen.iter_mut().for_each(|c| c.1 = c.1 / divisor * scale);
        chosen
    }
}

/// The scores of logits.
fn score(level: Level, sigmoid: bool, logits: &[f32], scores: &mut Vec<f32>) {
    scores.clear();
    if sigmoid {
        scores.extend_from_slice(logits);
        return Function::from(Unary::Sigmoid).apply(level, scores);
    }
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.extend(logits.iter().map(|x| x - largest));
    Function::from(Unary::Exp).apply(level, scores);
    let sum: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|s| *s /= sum);
}

/// The places of the `n` largest, the largest first, ties to the lower place; NaN is above all.
fn best<'a>(x: &[f32], n: usize, order: &'a mut Vec<u64>) -> impl Iterator<Item = usize> + 'a {
    order.clear();
    order.extend((0..).zip(x).map(|(i, &x)| ranked::word(ranked::bits(x), i, true)));
    ranked::first(order, n);
    order.iter().map(|&word| ranked::place(word) as usize)
}
