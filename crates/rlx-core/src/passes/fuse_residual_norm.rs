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

use super::{Context, remove_nodes};
use crate::error::Result;
use crate::ir::mir::{Graph, ValueId};
use crate::ops::{Binary, Op, ResidualLayerNorm, ResidualRmsNorm};
use alloc::vec;
use alloc::vec::Vec;

/// Fuses in place; returns the number of sums fused.
pub fn fuse_residual_norm(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let (definers, users) = (g.definers(), g.users());
    let mut dead: Vec<usize> = Vec::new();
    for i in 0..g.nodes.len() {
        let (Op::Zip(zip), &[x, r]) = (&g.nodes[i].op, g.nodes[i].inputs.as_slice()) else {
            continue;
        };
        if zip.f != Binary::Add || g.ty(x) != g.ty(r) {
            continue;
        }
        let s = g.nodes[i].outputs[0];
        // The first norm of the sum; a second one reads it from memory.
        let norm = users[s.0 as usize].iter().find_map(|&j| {
            let node = &g.nodes[j];
            let op: Op = match &node.op {
                Op::RmsNorm(n) => ResidualRmsNorm { eps: n.eps, bias: false }.into(),
                Op::LayerNorm(n) => {
                    ResidualLayerNorm { eps: n.eps, bias: false, shift: n.bias }.into()
                }
                _ => return None,
            };
            let params = &node.inputs[1..];
            let early = |v: &ValueId| definers[v.0 as usize].is_none_or(|at| at < i);
            (node.inputs[0] == s && params.iter().all(early)).then(|| (j, op, params.to_vec()))
        });
        let Some((j, op, params)) = norm else { continue };
        let mut inputs = vec![x, r];
        inputs.extend(params);
        let types: Vec<_> = inputs.iter().map(|&v| g.ty(v)).collect();
        let y = g.nodes[j].outputs[0];
        let same = op.infer(&types).is_ok_and(|t| t.iter().eq([g.ty(s), g.ty(y)]));
        if !same || !cx.fuses(g, &op, &inputs) {
            continue;
        }
        let label = g.nodes[j].label.clone();
        let node = &mut g.nodes[i];
        node.op = op;
        node.inputs = inputs;
        node.outputs = vec![s, y];
        node.label = label;
        dead.push(j);
    }
    dead.sort_unstable();
    remove_nodes(g, &dead);
    Ok(dead.len())
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_residual_norm", super::fuse_residual_norm);
    }
}
