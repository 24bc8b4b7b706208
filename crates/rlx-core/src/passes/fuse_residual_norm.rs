//! Add a residual in the norm that reads the sum.
//!
//! ```text
//! %s = zip %x, %r {f = add}
//! %y = rms_norm %s, %w          =>      %s, %y = residual_rms_norm %x, %r, %w
//! ```
//!
//! The same for `layer_norm`. Saves a launch and a read of the sum, which stays a result: others
//! read it, as the residual of the next sum does.
//!
//! Runs after `fuse_residual`, whose sums cost nothing. Leaves alone: addends of two shapes, weights
//! that are computed after the sum, and every sum on a target without the fused operator.

use super::{Context, Rewrite};
use crate::error::Result;
use crate::ir::mir::{Graph, ValueId};
use crate::ops::{Binary, Op, ResidualLayerNorm, ResidualRmsNorm};
use alloc::vec;

/// Fuses in place; returns the number of sums fused.
pub fn fuse_residual_norm(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut rewrite = Rewrite::new(g);
    for i in 0..rewrite.g.nodes.len() {
        let g = &*rewrite.g;
        let (Op::Zip(zip), &[x, r]) = (&g.nodes[i].op, g.nodes[i].inputs.as_slice()) else {
            continue;
        };
        if zip.f != Binary::Add || g.ty(x) != g.ty(r) {
            continue;
        }
        let s = g.nodes[i].outputs[0];
        // The first norm of the sum; a second one reads it from memory.
        let norm = rewrite.readers(s).iter().find_map(|&j| {
            let node = &g.nodes[j];
            let op: Op = match &node.op {
                Op::RmsNorm(n) => ResidualRmsNorm { eps: n.eps, bias: false }.into(),
                Op::LayerNorm(n) => {
                    ResidualLayerNorm { eps: n.eps, bias: false, shift: n.bias }.into()
                }
                _ => return None,
            };
            let params = &node.inputs[1..];
            let early = |v: &ValueId| rewrite.maker(*v).is_none_or(|at| at < i);
            (node.inputs[0] == s && params.iter().all(early)).then(|| (j, op, params.to_vec()))
        });
        let Some((j, op, params)) = norm else { continue };
        let mut inputs = vec![x, r];
        inputs.extend(params);
        let outputs = vec![s, g.nodes[j].outputs[0]];
        if !rewrite.gives(&op, &inputs, &outputs) || !cx.fuses(g, &op, &inputs) {
            continue;
        }
        let label = g.nodes[j].label.clone();
        let node = rewrite.replace(i, op, inputs, &[j]);
        (node.outputs, node.label) = (outputs, label);
    }
    Ok(rewrite.finish())
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_residual_norm", super::fuse_residual_norm);
    }
}
