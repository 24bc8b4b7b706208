//! Attention from its products and its softmax.
//!
//! ```text
//! %s = batch_matmul %q, %k {transpose_b = true}
//! %t = zip %s, %scale {f = mul}
//! %u = zip %t, %mask {f = add}
//! %p = softmax %u {axis = 3}
//! %y = batch_matmul %p, %v      =>      %y = sdpa %q, %k, %v, %mask {mask = bias, layout = bhsd, …}
//! ```
//!
//! Scale and mask may be absent; the scale is a constant that multiplies or divides. Saves up to
//! four launches, and the scores, which grow with the square of the sequence, never reach memory.
//! The sum of a row is then divided at its end, so results may differ in the last place.
//!
//! Operands are `[B, H, S, E]`. Leaves alone: scores or weights that others read, a mask that does
//! not fit the scores, and every graph on a target without the fused operator.

use super::{Context, Rewrite};
use crate::error::Result;
use crate::ir::mir::{Graph, ValueId};
use crate::ops::{BatchMatMul, Binary, HeadLayout, Mask, Op, Sdpa};
use crate::types::DType;
use alloc::vec;
use alloc::vec::Vec;

/// Fuses in place; returns the number of attentions.
pub fn fuse_attention(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let mut rewrite = Rewrite::new(g);
    for i in 0..rewrite.g.nodes.len() {
        let g = &*rewrite.g;
        let Some((op, inputs, parts)) = attention(&rewrite, i) else { continue };
        if !rewrite.gives(&op, &inputs, &g.nodes[i].outputs) || !cx.fuses(g, &op, &inputs) {
            continue;
        }
        rewrite.replace(i, op, inputs, &parts);
    }
    Ok(rewrite.finish())
}

/// The attention that ends in node `i`: the operator, its operands, the nodes it replaces.
fn attention(rewrite: &Rewrite<'_>, i: usize) -> Option<(Op, Vec<ValueId>, Vec<usize>)> {
    let g = &*rewrite.g;
    let product = |at: usize, transposed: bool| {
        let Op::BatchMatMul(BatchMatMul { transpose_b }) = g.nodes[at].op else { return None };
        (transpose_b == transposed).then_some((g.nodes[at].inputs[0], g.nodes[at].inputs[1]))
    };
    // The node that made a value for this one reader.
    let own = |v: ValueId| {
        if rewrite.alone(v) { rewrite.maker(v) } else { None }
    };
    let (p, v) = product(i, false)?;
    let mut at = own(p)?;
    let mut parts = vec![at];
    let rank = g.ty(p).shape.rank();
    if !matches!(&g.nodes[at].op, Op::Softmax(s) if s.axis + 1 == rank) || rank != 4 {
        return None;
    }
    let step = |at: usize, parts: &mut Vec<usize>| {
        let next = own(g.nodes[at].inputs[0])?;
        parts.push(next);
        Some(next)
    };
    at = step(at, &mut parts)?;
    let mut mask = None;
    let zip = |at: usize| match (&g.nodes[at].op, g.nodes[at].inputs.as_slice()) {
        (Op::Zip(z), &[_, b]) => Some((z.f, b)),
        _ => None,
    };
    if let Some((Binary::Add, m)) = zip(at) {
        mask = Some(m);
        at = step(at, &mut parts)?;
    }
    let mut scale = 1.0;
    if let Some((f, c)) = zip(at) {
        let c = constant(g, rewrite.maker(c)?)?;
        scale = match f {
            Binary::Mul => c,
            Binary::Div => 1.0 / c,
            _ => return None,
        };
        at = step(at, &mut parts)?;
    }
    let (q, k) = product(at, true)?;
    let dim = |v: ValueId, axis: usize| {
        let n = g.ty(v).shape.0.get(axis)?.as_static()?;
        usize::try_from(n).ok()
    };
    let op = Sdpa {
        heads: dim(q, 1)?,
        kv_heads: dim(k, 1)?,
        head_dim: dim(q, 3)?,
        v_head_dim: dim(v, 3)?,
        mask: if mask.is_some() { Mask::Bias } else { Mask::None },
        scale: Some(scale),
        softcap: None,
        layout: HeadLayout::Bhsd,
    };
    let mut inputs = vec![q, k, v];
    inputs.extend(mask);
    Some((op.into(), inputs, parts))
}

/// The one element of a constant of f32.
fn constant(g: &Graph, at: usize) -> Option<f32> {
    let Op::Constant(c) = &g.nodes[at].op else { return None };
    let bytes: [u8; 4] = c.data.as_ref().try_into().ok()?;
    (c.ty.dtype == DType::F32).then(|| f32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("fuse_attention", super::fuse_attention);
    }
}
