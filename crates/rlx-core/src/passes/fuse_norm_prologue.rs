//! Scale by the norm inside the matmuls that read it.
//!
//! ```text
//! %n = rms_norm %x, %g {eps}
//! %y = matmul %n, %w      =>      %y = matmul %x, %g, %w {norm_eps}
//! ```
//!
//! Saves a launch, which at one row costs more than the second read of x. Each workgroup sums x^2
//! while it reads x, so with many rows the sums would be repeated for every tile of outputs.
//!
//! Runs last of the matmul fusions. Leaves alone: steps of more than one row, a norm that anything
//! but a matmul reads, and a matmul that will read int8 blocks, which are made of the normed row:
//! unless the target's kernel makes them itself, behind the norm.

use super::int8::{activation_format, blocks_of, prologue};
use super::{Context, Rewrite};
use crate::error::Result;
use crate::ir::mir::Graph;
use crate::ops::{MatMul, Op};
use alloc::vec::Vec;

/// Fuses in place; returns the number of matmuls that took a norm. The norms are left to `dce`.
pub fn fuse_norm_prologue(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let integers = cx.integers();
    let mut rewrite = Rewrite::new(g);
    for i in 0..rewrite.g.nodes.len() {
        let g = &*rewrite.g;
        let Op::RmsNorm(norm) = &g.nodes[i].op else { continue };
        let eps = norm.eps;
        let y = g.nodes[i].outputs[0];
        let one_row = g.ty(y).shape.rows()?.as_static() == Some(1);
        let readers = rewrite.readers(y);
        let takes = |j: usize| match &g.nodes[j].op {
            Op::MatMul(m) => {
                m.norm.is_none()
                    && g.nodes[j].inputs.iter().filter(|&&v| v == y).count() == 1
                    && g.nodes[j].inputs[0] == y
            }
            _ => false,
        };
        let reads_blocks = |j: usize| match &g.nodes[j].op {
            Op::MatMul(m) => {
                let weights = &g.nodes[j].inputs[m.parts().weights..][..m.segments];
                weights.iter().any(|&w| activation_format(g.ty(w).dtype, cx).is_some())
            }
            _ => false,
        };
        if !one_row || g.is_output(y) || readers.is_empty() {
            continue;
        }
        // A reader that needs the normed row keeps it in memory; the others then read it there.
        if !readers.iter().all(|&j| takes(j)) {
            continue;
        }
        let [x, weight] = [g.nodes[i].inputs[0], g.nodes[i].inputs[1]];
        let with_norm = |j: usize| {
            let Op::MatMul(m) = &g.nodes[j].op else { return None };
            let op = Op::from(MatMul { norm: Some(eps), ..m.clone() });
            let mut inputs = g.nodes[j].inputs.clone();
            inputs[0] = x;
            inputs.insert(1, weight);
            let same = rewrite.gives(&op, &inputs, &g.nodes[j].outputs);
            let runs = if integers && reads_blocks(j) {
                let weights = inputs.get(crate::passes::weights(&op))?;
                prologue(g, &op, &inputs, blocks_of(g, weights, cx)?, cx).is_some()
            } else {
                cx.fuses(g, &op, &inputs)
            };
            (same && runs).then_some((j, op, inputs))
        };
        let normed: Option<Vec<_>> = readers.iter().map(|&j| with_norm(j)).collect();
        let Some(normed) = normed else { continue };
        for (j, op, inputs) in normed {
            rewrite.replace(j, op, inputs, &[]);
        }
    }
    Ok(rewrite.finish())
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_norm_prologue", super::fuse_norm_prologue);
    }
}
