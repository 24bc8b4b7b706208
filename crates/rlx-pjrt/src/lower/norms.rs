//! Norms of rows.

use super::Node;
use super::builder::{Builder, V};
use super::takes::{Taken, are_floats, knows};
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["eps"])?;
    are_floats(operands)
}

pub(super) fn rms_norm(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::RmsNorm(op) = node.op else { return Err(node.mismatch()) };
    let (x, w) = (node.value(0)?.clone(), node.value(1)?.clone());
    Ok(vec![rms(b, &x, &w, op.eps)])
}

/// `x * w / sqrt(mean(x^2) + eps)` over the last axis, rounded once to the type of `x`.
pub(super) fn rms(b: &mut Builder, x: &V, w: &V, eps: f32) -> V {
    let wide = b.convert(x, x.el.wide());
    let last = x.dims.len() - 1;
    let squares = b.mul(&wide, &wide);
    let sum = b.sum(&squares, &[last]);
    let mean = b.with("divide", &sum, x.dims[last].max(1) as f64);
    let shifted = b.with("add", &mean, eps.into());
    let inverse = b.unary("rsqrt", &shifted);
    let axes: Vec<usize> = (0..last).collect();
    let inverse = b.repeat(&inverse, &x.dims, &axes);
    let w = b.convert(w, wide.el);
    let w = b.repeat(&w, &x.dims, &[last]);
    let y = b.mul(&wide, &inverse);
    let y = b.mul(&y, &w);
    b.convert(&y, x.el)
}
