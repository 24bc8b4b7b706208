//! join        y[h] = sum exp(m_j - M) acc_j / sum exp(m_j - M) sum_j over a head's splits j, which have
//!             the maxima m_j, the largest of them M; a sink is a split with the sum 1 and no acc
//! shapes      acc f32[kv heads S, heads / kv heads e]   stats f32[kv heads S, 2 heads / kv heads]
//!             y f32[1, heads e]
//! bytes       4 in for each split, 4 out, per element
//! shares      heads of y
//! numerics    f32, splits in their order; exp within 2 ulp

use super::{Kernel, Planned, claim, dims};
use crate::place::Split;
use crate::simd::{LANES, Simd, Task, dispatch};
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::AttentionJoin;
use rlx_core::target::Target;
use rlx_core::types::Type;

struct Join {
    splits: usize,
    /// Query heads of a key and value head.
    group: usize,
    head_dim: usize,
    sinks: bool,
}

pub(super) fn takes(op: &AttentionJoin, operands: &[&Type], _: &Target) -> Result<(), String> {
    let AttentionJoin { splits: _, sinks: _ } = op;
    if AttentionJoin::several(operands).is_some() {
        return Err("its kernel takes one row".into());
    }
    claim::floats(operands)?;
    claim::matrix(operands)
}

pub(super) fn plan(op: &AttentionJoin, step: &Step) -> Result<Planned> {
    let [rows, columns] = dims(&step.operands[0])?;
    let [_, pairs] = dims(&step.operands[1])?;
    let group = pairs / 2;
    let head_dim = columns / group.max(1);
    let kernel = Join { splits: op.splits, group, head_dim, sinks: op.sinks };
    Ok(Planned::new(kernel, &[Split::Columns(4 * head_dim)], rows * columns))
}

impl Kernel for Join {
    fn run(&self, cx: &mut Cx<'_>) {
        let (acc, stats, level) = (cx.slice::<f32>(0), cx.slice::<f32>(1), cx.level);
        let sinks = if self.sinks { cx.slice::<f32>(2) } else { &[] };
        let first = cx.result(0).columns::<f32>().start / self.head_dim;
        let heads = cx.result(0).row::<f32>(0).chunks_exact_mut(self.head_dim);
        for (i, y) in heads.enumerate() {
            let (kv, h) = ((first + i) / self.group, (first + i) % self.group);
            let at = kv * self.splits * self.group + h;
            let stats = stats.as_chunks::<2>().0;
            let splits = stats[at..].iter().step_by(self.group).take(self.splits);
            let acc = acc[at * self.head_dim..].chunks(self.head_dim).step_by(self.group);
            let sink = sinks.get(first + i).copied().unwrap_or(f32::NEG_INFINITY);
            dispatch(level, Head { splits: splits.zip(acc), sink, y });
        }
    }
}

/// A head's splits, each a maximum, a sum and a row.
struct Head<'a, I> {
    splits: I,
    /// Minus infinity is none.
    sink: f32,
    y: &'a mut [f32],
}

impl<'a, I: Iterator<Item = (&'a [f32; 2], &'a [f32])> + Clone> Task for Head<'_, I> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Head { splits, sink, y } = self;
        let all = splits.clone();
        let most = all.fold(sink, |m, ([x, _], _)| if *x > m { *x } else { m });
        let base = if most == f32::NEG_INFINITY { 0.0 } else { most };
        // exp(-inf) is 0: a split without a score weighs nothing.
        let weight = |max: f32| {
            let mut lanes = [0.0; LANES];
            s.store(s.exp(s.splat(max - base)), &mut lanes);
            lanes[0]
        };
        let mut total = weight(sink);
        y.fill(0.0);
        for ([max, sum], acc) in splits {
            let weight = weight(*max);
            total += weight * sum;
            y.iter_mut().zip(acc).for_each(|(y, x)| *y += weight * x);
        }
        let inverse = 1.0 / total;
        y.iter_mut().for_each(|y| *y *= inverse);
    }
}
