//! split       acc[k S + j, h] = sum exp(s - m) V[p], stats[k S + j, h] = m, sum exp(s - m) over the positions
//!             p of split j, for one row; s are attention's scores and m the largest
//! shapes      q f32[1, heads e]   K, V f32|f16|q8_0[kv heads, capacity, e]
//!             acc f32[kv heads S, heads / kv heads e]   stats f32[kv heads S, 2 heads / kv heads]
//! bytes       K and V once for up to 4 heads of a group
//! shares      splits of each key and value head
//! numerics    attention's

use super::attention::{self, Attend, Query};
use super::{Kernel, Planned, control, dims};
use crate::place::Split;
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::AttentionSplit;
use rlx_core::target::Target;
use rlx_core::types::Type;

struct Splits {
    op: AttentionSplit,
    attend: Attend,
    /// Query heads of a key and value head.
    group: usize,
}

pub(super) fn takes(
    op: &AttentionSplit,
    operands: &[&Type],
    target: &Target,
) -> Result<(), String> {
    let AttentionSplit { whole, splits: _, least: _ } = op;
    match operands.first().and_then(|q| q.shape.rows().ok()?.as_static()) {
        Some(1) => attention::takes(whole, operands, target),
        _ => Err("its kernel takes one row".into()),
    }
}

pub(super) fn plan(op: &AttentionSplit, step: &Step) -> Result<Planned> {
    let [_, width] = dims(&step.operands[0])?;
    let attend = Attend::new(&op.whole, step)?;
    let work = width * attend.cache.capacity;
    let group = width / op.whole.head_dim.max(1) / attend.cache.heads.max(1);
    let kernel = Splits { op: op.clone(), attend, group };
    Ok(Planned::new(kernel, &[Split::Rows, Split::Rows], work))
}

impl Kernel for Splits {
    fn run(&self, cx: &mut Cx<'_>) {
        let (q, ctl) = (cx.slice::<f32>(0), control(cx.slice(3)));
        let (keys, values, level) = (cx.bytes(1), cx.bytes(2), cx.level);
        let (e, n) = (self.attend.cache.head_dim, self.group);
        for row in cx.result(0).rows.clone() {
            let kv = row / self.op.splits;
            let (seen, splits) = (self.attend.seen(ctl.past, ctl.past + 1), self.op.splits);
            let seen = self.op.positions(seen, splits, row % splits);
            if seen.is_empty() || ctl.len == 0 {
                cx.result(0).row::<f32>(row).fill(0.0);
                let stats = cx.result(1).row::<f32>(row).as_chunks_mut::<2>().0;
                stats.fill([f32::NEG_INFINITY, 0.0]);
                continue;
            }
            let head = (self.attend.head(keys, kv), self.attend.head(values, kv));
            let mut at = 0;
            while at < n {
                let query = |r: usize| {
                    let q = &q[(kv * n + at + r) * e..][..e];
                    Query { q, seen: seen.clone() }
                };
                let acc = &mut cx.result(0).row::<f32>(row)[at * e..];
                let (sums, done) = self.attend.some(level, n - at, query, head, acc);
                let stats = cx.result(1).row::<f32>(row).as_chunks_mut::<2>().0;
                for (stats, sums) in stats[at..].iter_mut().zip(&sums[..done]) {
                    *stats = [sums.max, sums.sum];
                }
                at += done;
            }
        }
    }
}
