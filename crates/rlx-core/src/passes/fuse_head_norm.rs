//! Norm the heads of q and k in the step that rotates them and splits the row's attention.
//!
//! ```text
//! %q1 = rms_norm (heads of %q), %wq {eps}
//! %k1 = rms_norm (heads of %k), %wk {eps}
//! … = rope_attention_split %q1, %k1, …     =>      … = rope_attention_split %q, %k, …, %wq, %wk {norm_eps}
//! ```
//!
//! Saves two launches, and writes and reads of both rows; each split norms its own heads of q, and the key
//! that it may have to write.
//!
//! Runs behind `fuse_rope_split`. Leaves alone: a norm of q or of k alone, norms that differ in eps or have
//! other readers, norms of more than a head, and targets without the operator.

use super::{Context, Rewrite};
use crate::error::Result;
use crate::ir::mir::{Graph, ValueId};
use crate::ops::{Op, RopeAttentionSplit};
use alloc::vec::Vec;

/// Fuses in place; returns the number of splits that norm.
pub fn fuse_head_norm(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut rewrite = Rewrite::new(g);
    for i in 0..rewrite.g.nodes.len() {
        let g = &*rewrite.g;
        let Op::RopeAttentionSplit(split) = &g.nodes[i].op else { continue };
        if split.norm.is_some() {
            continue;
        }
        let inputs = &g.nodes[i].inputs;
        let (Some(q), Some(k)) = (normed(&rewrite, inputs[0]), normed(&rewrite, inputs[1])) else {
            continue;
        };
        if q.eps.to_bits() != k.eps.to_bits() {
            continue;
        }
        let op = Op::from(RopeAttentionSplit { norm: Some(q.eps), ..split.clone() });
        let mut inputs = inputs.clone();
        (inputs[0], inputs[1]) = (q.x, k.x);
        inputs.extend([q.weight, k.weight]);
        if !rewrite.gives(&op, &inputs, &g.nodes[i].outputs) || !cx.fuses(g, &op, &inputs) {
            continue;
        }
        let absorbed: Vec<usize> = q.nodes.into_iter().chain(k.nodes).collect();
        rewrite.replace(i, op, inputs, &absorbed);
    }
    Ok(rewrite.finish())
}

/// A row whose heads were normed.
struct Normed {
    /// The row, a matrix.
    x: ValueId,
    weight: ValueId,
    eps: f32,
    /// What made the normed row of it.
    nodes: Vec<usize>,
}

/// How `row`, a matrix, was normed: between views that give its heads an axis, which a row of one head has no
/// need of.
fn normed(rewrite: &Rewrite<'_>, row: ValueId) -> Option<Normed> {
    let g = &*rewrite.g;
    let view_of = |v| rewrite.maker(v).filter(|&at| matches!(g.nodes[at].op, Op::Reshape(_)));
    let read_by = |at: usize| g.nodes[at].inputs[0];
    let flat = view_of(row);
    let y = flat.map_or(row, read_by);
    let at = rewrite.maker(y)?;
    let Op::RmsNorm(norm) = &g.nodes[at].op else { return None };
    let [heads, weight] = g.nodes[at].inputs[..] else { return None };
    let split = view_of(heads);
    let x = split.map_or(heads, read_by);
    if ![row, y].iter().all(|&v| rewrite.alone(v)) || g.ty(x) != g.ty(row) {
        return None;
    }
    // Where others read the heads, their view stays.
    let split = split.filter(|_| rewrite.alone(heads));
    let nodes = [flat, Some(at), split].into_iter().flatten().collect();
    Some(Normed { x, weight, eps: norm.eps, nodes })
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_head_norm", super::fuse_head_norm);
    }
}
