//! Activations of 11 bits: a matmul of several rows rounds x as f16 does, for tensor cores, and attention of several
//! rows its queries and weights.
//!
//! ```text
//! %y = matmul %x, %w                  =>      %y = matmul %x, %w {half}
//! %y = attention %q, %k, %v, %ctl     =>      %y = attention %q, %k, %v, %ctl {half}
//! ```
//!
//! A part of legalisation. Leaves alone: products of one row, which wait for weights; weights of f32 and bf16, and
//! caches of other types than f16, whose own bits would be lost; what the target's kernel does not round; and
//! everything where the options say another type.

use super::Context;
use super::int8::refusal;
use crate::error::Result;
use crate::ir::mir::{Graph, Node};
use crate::ops::{Attention, MatMul, Op};
use crate::target::Activations;
use crate::types::{DType, Shape, Type};
use alloc::vec::Vec;

/// Marks operators in place; returns their number.
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

/// The operator that rounds what it is given, where that is to be and the target has it.
fn rounding(g: &Graph, node: &Node, cx: &Context<'_>) -> Option<Op> {
    let types: Vec<&Type> = node.inputs.iter().map(|&v| g.ty(v)).collect();
    let (op, others): (Op, &[&Type]) = match &node.op {
        Op::MatMul(m) => {
            (MatMul { half: true, ..m.clone() }.into(), types.get(super::weights(&node.op))?)
        }
        Op::Attention(a) => (Attention { half: true, ..a.clone() }.into(), types.get(1..3)?),
        _ => return None,
    };
    let narrow = |ty: &&Type| match ty.dtype {
        DType::Block(_) => matches!(op, Op::MatMul(_)),
        dtype => dtype == DType::F16,
    };
    let rows = types.first()?.shape.rows().ok()?;
    if rows.as_static() == Some(1) || !others.iter().all(narrow) {
        return None;
    }
    (op.infer(&types).is_ok() && cx.runs_well(&op, &types)).then_some(op)
}
