//! Integer activations: a matmul of packed weights reads blocks of integers of x.
//!
//! ```text
//! %y = matmul %x, %w      =>      %b = quantize_rows %x {to = q8_k}
//!                                 %y = matmul %b, %w
//! ```
//!
//! Blocks have 32 elements (`q8_0`, or `q15_0` for int16 and mixed), or 256 (`q8_k`) where the target wants them for
//! weights in blocks of 256. One quantisation serves every matmul of that x. An x of f16 or bf16 is widened first, and
//! the product rounded back.
//!
//! Where the target gains from it and its kernel does so, a matmul makes the blocks itself:
//!
//! ```text
//! %y = matmul %x, %g, %w {norm_eps}   =>   %y = matmul %x, %g, %w {norm_eps, quantize = q8_k}
//! ```
//!
//! Experts' products (`grouped_matmul`) read such blocks where the target's kernel does.
//!
//! A part of legalisation. Leaves alone: f32, f16 and bf16 weights, matmuls that mix block lengths,
//! and everything where the options or the target say f32.

use super::Context;
use super::casts::{Casts, is_narrow, part};
use crate::error::{Code, Error, Result};
use crate::ir::mir::{Graph, Node, ValueId};
use crate::ops::{Cast, MatMul, Op, QuantizeRows};
use crate::sorted::Map;
use crate::target::{Activations, Path};
use crate::types::{BlockFormat, DType, Shape, Type};
use alloc::format;
use alloc::vec::Vec;

/// The blocks that a weight's kernels read, or `None` where activations stay f32.
pub(super) fn activation_format(weight: DType, cx: &Context<'_>) -> Option<BlockFormat> {
    match weight {
        DType::Block(b) if b.elements() % 32 != 0 => None,
        DType::Block(_) if wants_parts(cx) => Some(BlockFormat::Q15_0),
        DType::Block(b) if b.elements() == 256 => {
            Some(cx.options.super_blocks.unwrap_or(cx.target.super_blocks))
        }
        DType::Block(_) => Some(BlockFormat::Q8_0),
        DType::Scalar(_) => None,
    }
}

/// Whether integers are to have two parts.
fn wants_parts(cx: &Context<'_>) -> bool {
    matches!(cx.options.activations, Activations::Int16 | Activations::Mixed)
}

/// Whether the device can turn several rows of x into integers of two parts, as the options ask for them.
fn makes_parts(cx: &Context<'_>) -> bool {
    let rows = Type::tensor(DType::F32, Shape::of(&[2, 32]));
    let op = quantizer(BlockFormat::Q15_0, &rows, cx);
    op.is_ok_and(|op| cx.path(&op.into(), &[&rows]).is_ok())
}

/// The operator that makes blocks of an x of this type. One row has all its low parts: they cost its products little.
fn quantizer(format: BlockFormat, x: &Type, cx: &Context<'_>) -> Result<QuantizeRows> {
    let one_row = x.shape.rows()?.as_static() == Some(1);
    let only_large =
        cx.options.activations == Activations::Mixed && format == BlockFormat::Q15_0 && !one_row;
    Ok(QuantizeRows { only_large, ..QuantizeRows::to(format) })
}

/// The error of activations that the target's kernels do not multiply.
pub(super) fn refusal(cx: &Context<'_>) -> Error {
    let (target, activations) = (&cx.target.name, cx.options.activations.name());
    let what = format!("the device {target} multiplies no {activations} activations");
    Error::new(Code::Unsupported, what).hint("take activations of int8 or f32")
}

/// Quantises in place; returns the number of matmuls that now read int8.
pub(super) fn int8(g: &mut Graph, cx: &Context<'_>) -> Result<usize> {
    if wants_parts(cx) && !(cx.target.int16 && makes_parts(cx)) {
        return Err(refusal(cx));
    }
    if !cx.integers() {
        return Ok(0);
    }
    let mut blocks: Map<(ValueId, BlockFormat), ValueId> = Map::new();
    let mut casts = Casts::default();
    let mut changed = 0;
    let mut nodes = Vec::with_capacity(g.nodes.len());
    for mut node in core::mem::take(&mut g.nodes) {
        for body in &mut node.regions {
            changed += int8(body, cx)?;
        }
        let Some(format) = format(g, &node, cx) else {
            nodes.push(node);
            continue;
        };
        if let Some(op) = prologue(g, &node.op, &node.inputs, format, cx) {
            node.op = op;
            nodes.push(node);
            changed += 1;
            continue;
        }
        if matches!(&node.op, Op::MatMul(m) if m.norm.is_some()) {
            nodes.push(node);
            continue;
        }
        // What the matmul gives of blocks; one that takes none of its other operands stays.
        let x = node.inputs[0];
        let packed = Type { dtype: DType::Block(format), ..g.ty(x).clone() };
        let mut types: Vec<&Type> = node.inputs.iter().map(|&v| g.ty(v)).collect();
        types[0] = &packed;
        let Ok(results) = node.op.infer(&types) else {
            nodes.push(node);
            continue;
        };
        if matches!(node.op, Op::GroupedMatMul(_)) {
            let floats = Type { dtype: DType::F32, ..packed.clone() };
            let makes = cx.runs_well(&quantizer(format, &floats, cx)?.into(), &[&floats]);
            if !makes || !cx.runs_well(&node.op, &types) {
                nodes.push(node);
                continue;
            }
        }
        let b = match blocks.get(&(x, format)) {
            Some(&b) => b,
            None => {
                let wide = casts.get(g, &mut nodes, x, DType::F32, &node.label);
                let op = Op::from(quantizer(format, g.ty(wide), cx)?);
                op.infer(&[g.ty(wide)]).map_err(|e| e.at(node.label.clone()))?;
                let b = g.value(packed);
                nodes.push(Node::new(op, &[wide], &[b], format!("{}_x", node.label)));
                blocks.insert((x, format), b);
                b
            }
        };
        node.inputs[0] = b;
        changed += 1;
        let mut back = Vec::new();
        for (v, ty) in node.outputs.iter_mut().zip(results) {
            if *g.ty(*v) != ty {
                let (old, wide) = (*v, g.value(ty));
                *v = wide;
                back.push((wide, old));
            }
        }
        let label = node.label.clone();
        nodes.push(node);
        for (wide, old) in back {
            let to = g.ty(old).dtype;
            nodes.push(Node::new(Cast { to }, &[wide], &[old], part(&label, to.name())));
        }
    }
    g.nodes = nodes;
    Ok(changed)
}

/// The matmul with the quantisation inside, if the target gains from it and runs that.
pub(super) fn prologue(
    g: &Graph,
    op: &Op,
    inputs: &[ValueId],
    format: BlockFormat,
    cx: &Context<'_>,
) -> Option<Op> {
    let Op::MatMul(m) = op else { return None };
    let gains = cx.target.fusions.quantize_prologue && !cx.options.skip_fusion;
    let op = Op::from(MatMul { quantize: Some(format), ..m.clone() });
    let types: Vec<&Type> = inputs.iter().map(|&v| g.ty(v)).collect();
    let runs = op.infer(&types).is_ok() && cx.path(&op, &types) == Ok(Path::Native);
    (gains && runs).then_some(op)
}

/// The one format that all weights of a product want of a float x.
fn format(g: &Graph, node: &Node, cx: &Context<'_>) -> Option<BlockFormat> {
    let has_blocks = match &node.op {
        Op::MatMul(m) => m.quantize.is_some(),
        Op::GroupedMatMul(_) => false,
        _ => return None,
    };
    let weights = node.inputs.get(super::weights(&node.op))?;
    let first = blocks_of(g, weights, cx)?;
    let x = g.ty(*node.inputs.first()?);
    let float = x.dtype == DType::F32 || is_narrow(x);
    (!has_blocks && float).then_some(first)
}

/// The one format of activations that all these weights want.
pub(super) fn blocks_of(g: &Graph, weights: &[ValueId], cx: &Context<'_>) -> Option<BlockFormat> {
    let mut formats = weights.iter().map(|&w| activation_format(g.ty(w).dtype, cx));
    let first = formats.next().flatten()?;
    formats.all(|f| f == Some(first)).then_some(first)
}
