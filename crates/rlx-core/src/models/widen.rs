//! Networks compute in f32. Folders have norms and biases in the type of their matrices, f16 or bf16: these are
//! widened, which loading does. Matrices stay, since kernels read them.

use crate::ir::hir::{Block, BlockNode, Module, Tensor, Weight};
use crate::ir::mir::ParamKind;
use crate::ops::{Cast, Op};
use crate::types::DType;

/// Whether a type is widened.
fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Whether a node is the family's own cast, which needs no other before it.
fn casts(node: &BlockNode) -> bool {
    matches!(&node.block, Block::Op(Op::Cast(_), _))
}

/// Widens every vector of a module's weights.
pub(super) fn vectors(m: &mut Module) {
    let (own, first) = (m.nodes.len(), m.results());
    for i in 0..m.params.len() {
        let p = &m.params[i];
        if p.kind != ParamKind::Weight || p.ty.shape.rank() != 1 || !is_half(p.ty.dtype) {
            continue;
        }
        let (narrow, label) = (Tensor::Param(i as u32), p.name.clone());
        let read = |node: &BlockNode| !casts(node) && node.inputs.contains(&narrow);
        if !m.nodes[..own].iter().any(read) {
            continue;
        }
        let wide = m.op(Cast { to: DType::F32 }, &[narrow], &label);
        let readers = m.nodes[..own].iter_mut().filter(|node| !casts(node));
        let inputs = readers.flat_map(|node| &mut node.inputs);
        inputs.filter(|t| **t == narrow).for_each(|t| *t = wide);
    }
    // They come first, and results are numbered in the order of their nodes.
    m.nodes.rotate_left(own);
    let casts = m.results() - first;
    let nodes = m.nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().chain(&mut node.outputs));
    let named = m.outputs.iter_mut().chain(&mut m.taps).map(|(_, tensor)| tensor);
    for tensor in nodes.chain(named) {
        if let Tensor::Result(r) = tensor {
            *r = if *r >= first { *r - first } else { *r + casts };
        }
    }
}

/// A weight that is no matrix and no vector, widened.
pub(in crate::models) fn widened(m: &mut Module, weight: Weight) -> Tensor {
    let (half, label) = (is_half(weight.ty.dtype), weight.name.clone());
    let weight = m.weight(weight);
    if half { m.op(Cast { to: DType::F32 }, &[weight], &label) } else { weight }
}
