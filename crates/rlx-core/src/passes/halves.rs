//! Activations of 11 bits: a matmul of several rows rounds x as f16 does, for tensor cores.
//!
//! ```text
//! %y = matmul %x, %w      =>      %y = matmul %x, %w {half}
//! ```
//!
//! A part of legalisation. Leaves alone: products of one row, which wait for weights; weights of f32 and bf16, whose
//! own bits would be lost; products that the target's kernel does not round; and everything where the options say
//! another type.

use super::Context;
use super::int8::refusal;
use crate::error::Result;
use crate::ir::mir::{Graph, Node};
use crate::ops::{MatMul, Op};
use crate::target::Activations;
use crate::types::{DType, Scalar, Shape, Type};

/// Marks products in place; returns their number.
pub(super) fn halves(g: &mut Graph, cx: &Context<'_>) -> Result<usize> {
    if cx.options.activations != Activations::F16 {
        return Ok(0);
    }
    if !is_possible(cx) {
        return Err(refusal(cx));
    }
    mark(g, cx)
}

/// Whether the target multiplies such rows. No executor of a page does, and pages download each function.
fn is_possible(cx: &Context<'_>) -> bool {
    let x = Type::tensor(DType::F32, Shape::of(&[64, 64]));
    let w = Type::tensor(DType::F16, Shape::of(&[64, 64]));
    let op = Op::from(MatMul { half: true, ..MatMul::plain() });
    cfg!(not(target_family = "wasm")) && cx.runs_well(&op, &[&x, &w])
}

fn mark(g: &mut Graph, cx: &Context<'_>) -> Result<usize> {
    let mut changed = 0;
    let mut nodes = core::mem::take(&mut g.nodes);
    for node in &mut nodes {
        for body in &mut node.regions {
            changed += mark(body, cx)?;
        }
        if let Some(op) = rounding(g, node, cx) {
            node.op = op;
            changed += 1;
        }
    }
    g.nodes = nodes;
    Ok(changed)
}

/// The product that rounds its x, where that is to be and the target has it.
fn rounding(g: &Graph, node: &Node, cx: &Context<'_>) -> Option<Op> {
    let Op::MatMul(m) = &node.op else { return None };
    let types: alloc::vec::Vec<&Type> = node.inputs.iter().map(|&v| g.ty(v)).collect();
    let x = types.first()?;
    let weights = types.get(super::weights(&node.op))?;
    let narrow = |w: &&Type| matches!(w.dtype, DType::Block(_) | DType::Scalar(Scalar::F16));
    if x.shape.rows().ok()?.as_static() == Some(1) || !weights.iter().all(narrow) {
        return None;
    }
    let op = Op::from(MatMul { half: true, ..m.clone() });
    (op.infer(&types).is_ok() && cx.runs_well(&op, &types)).then_some(op)
}
