//! Add a branch to its residual in the norm of the branch.
//!
//! ```text
//! %n = rms_norm %x, %w
//! %y = zip %r, %n {f = add}       =>      %y = rms_norm_add %x, %w, %r
//! ```
//!
//! Saves a launch, and a write and a read of the normed branch.
//!
//! Runs behind `fuse_residual_norm`, which takes sums that a norm reads, where the target has that. Leaves
//! alone: a norm with another reader, addends of two shapes, a branch added to itself, and every sum on a
//! target without the fused operator.

use super::{Context, Rewrite};
use crate::error::Result;
use crate::ir::mir::Graph;
use crate::ops::{Binary, Op, RmsNormAdd};

/// Fuses in place; returns the number of sums fused.
pub fn fuse_norm_add(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut rewrite = Rewrite::new(g);
    for i in 0..rewrite.g.nodes.len() {
        let g = &*rewrite.g;
        let (Op::Zip(zip), &[a, b]) = (&g.nodes[i].op, g.nodes[i].inputs.as_slice()) else {
            continue;
        };
        if zip.f != Binary::Add {
            continue;
        }
        let fused = [(b, a), (a, b)].into_iter().find_map(|(normed, residual)| {
            let at = rewrite.maker(normed).filter(|&at| !rewrite.is_gone(at))?;
            let Op::RmsNorm(norm) = &g.nodes[at].op else { return None };
            let op = Op::from(RmsNormAdd { eps: norm.eps });
            let mut inputs = g.nodes[at].inputs.clone();
            inputs.push(residual);
            let fits = normed != residual
                && rewrite.alone(normed)
                && rewrite.gives(&op, &inputs, &g.nodes[i].outputs)
                && cx.fuses(g, &op, &inputs);
            fits.then_some((at, op, inputs))
        });
        if let Some((at, op, inputs)) = fused {
            rewrite.replace(i, op, inputs, &[at]);
        }
    }
    Ok(rewrite.finish())
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_norm_add", super::fuse_norm_add);
    }
}
