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
//! Runs after `fuse_glu` and `fuse_map`. Leaves alone: matmuls with a prologue or a residual, with
//! different functions of their products, a mixture with and without bias, weights that are
//! made behind the first of them, and, with int8 activations, weights that want different blocks of x.

use super::int8::activation_format;
use super::{Context, Rewrite};
use crate::error::Result;
use crate::ir::mir::Graph;
use crate::ops::{Epilogue, MatMul, Op};
use alloc::vec;

/// The most segments that one matmul has.
const SEGMENTS: usize = 4;

/// Fuses in place; returns the number of matmuls merged into another.
pub fn fuse_segments(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let integers = cx.integers();
    let mut merged = 0;
    let mut rewrite = Rewrite::new(g);
    for i in 0..rewrite.g.nodes.len() {
        let g = &*rewrite.g;
        if rewrite.is_gone(i) {
            continue;
        }
        // What two matmuls must have in common; `None` for one that is not to be merged.
        let key = |j: usize| {
            let node = &g.nodes[j];
            let Op::MatMul(m) = &node.op else { return None };
            let plain = m.segments == 1
                && m.norm.is_none()
                && matches!(m.epilogue, Epilogue::None | Epilogue::Map(_))
                // One that is made, as a part of a tensor is, must be so before the first of them.
                && node.inputs[1..].iter().all(|v| rewrite.maker(*v).is_none_or(|at| at < i));
            let format = activation_format(g.ty(*node.inputs.get(1)?).dtype, cx);
            plain.then(|| (node.inputs[0], m.bias, m.epilogue, integers.then_some(format)))
        };
        let Some(first) = key(i) else { continue };
        let mut group = vec![i];
        for &j in rewrite.readers(first.0) {
            let merges = j > i && !rewrite.is_gone(j) && key(j) == Some(first);
            if merges && group.len() < SEGMENTS {
                group.push(j);
            }
        }
        if group.len() < 2 {
            continue;
        }
        let (x, bias, epilogue, _) = first;
        let mut inputs = vec![x];
        inputs.extend(group.iter().map(|&j| g.nodes[j].inputs[1]));
        if bias {
            inputs.extend(group.iter().map(|&j| g.nodes[j].inputs[2]));
        }
        let op = Op::from(MatMul { segments: group.len(), bias, epilogue, ..MatMul::plain() });
        if !cx.fuses(g, &op, &inputs) {
            continue;
        }
        let outputs = group.iter().map(|&j| g.nodes[j].outputs[0]).collect();
        rewrite.replace(i, op, inputs, &group).outputs = outputs;
        merged += group.len() - 1;
    }
    rewrite.finish();
    Ok(merged)
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_segments", super::fuse_segments);
    }
}
