//! Merge matmuls of one input into segments of one.
//!
//! ```text
//! %q = matmul %x, %wq
//! %k = matmul %x, %wk
//! %v = matmul %x, %wv      =>      %q, %k, %v = matmul %x, %wq, %wk, %wv {segments = 3}
//! ```
//!
//! Saves a launch and a read of x for each merged matmul. Weights are not concatenated: each
//! segment keeps its own type.
//!
//! Runs after `fuse_glu`. Leaves alone: matmuls with a prologue or epilogue, a mixture with and
//! without bias, and, with int8 activations, weights that want different blocks of x.

use super::legalise::activation_format;
use super::{Context, remove_nodes};
use crate::error::Result;
use crate::ir::mir::{Graph, ParamKind};
use crate::ops::{Epilogue, MatMul, Op};
use crate::target::Activations;
use alloc::vec;
use alloc::vec::Vec;

/// The most segments that one matmul has.
const SEGMENTS: usize = 4;

/// Fuses in place; returns the number of matmuls merged into another.
pub fn fuse_segments(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let params: Vec<_> =
        g.params.iter().filter(|p| p.kind != ParamKind::State).map(|p| p.value).collect();
    let int8 = cx.options.activations == Activations::Int8 && cx.target.int8;
    let mut dead = Vec::new();
    for i in 0..g.nodes.len() {
        if dead.contains(&i) {
            continue;
        }
        let plain = |g: &Graph, j: usize| match &g.nodes[j].op {
            Op::MatMul(m) => {
                m.segments == 1
                    && m.norm.is_none()
                    && m.epilogue == Epilogue::None
                    && g.nodes[j].inputs[1..].iter().all(|v| params.contains(v))
            }
            _ => false,
        };
        if !plain(g, i) {
            continue;
        }
        let key = |g: &Graph, j: usize| {
            let dtype = g.ty(g.nodes[j].inputs[1]).dtype;
            (g.nodes[j].inputs[0], g.nodes[j].inputs.len(), int8.then(|| activation_format(dtype)))
        };
        let group: Vec<usize> = (i..g.nodes.len())
            .filter(|&j| !dead.contains(&j) && plain(g, j) && key(g, j) == key(g, i))
            .take(SEGMENTS)
            .collect();
        if group.len() < 2 {
            continue;
        }
        let bias = g.nodes[i].inputs.len() == 3;
        let mut inputs = vec![g.nodes[i].inputs[0]];
        inputs.extend(group.iter().map(|&j| g.nodes[j].inputs[1]));
        if bias {
            inputs.extend(group.iter().map(|&j| g.nodes[j].inputs[2]));
        }
        let outputs = group.iter().map(|&j| g.nodes[j].outputs[0]).collect();
        let node = &mut g.nodes[i];
        node.op =
            MatMul { segments: group.len(), bias, norm: None, epilogue: Epilogue::None }.into();
        node.inputs = inputs;
        node.outputs = outputs;
        dead.extend(&group[1..]);
    }
    dead.sort_unstable();
    remove_nodes(g, &dead);
    Ok(dead.len())
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_segments", super::fuse_segments);
    }
}
