//! Norms of rows.

use super::builder::{Builder, V};
use super::takes::{Taken, are_floats, knows};
use super::{Node, functions};
use rlx_core::Result;
use rlx_core::ops::{Binary, Op};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["eps", "act"])?;
    are_floats(operands)
}

pub(super) fn rms_norm(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::RmsNorm(op) = node.op else { return Err(node.mismatch()) };
    let (x, w) = (node.value(0)?.clone(), node.value(1)?.clone());
    Ok(vec![rms(b, &x, &w, op.eps)])
}

pub(super) fn rms_norm_add(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::RmsNormAdd(op) = node.op else { return Err(node.mismatch()) };
    let (x, w) = (node.value(0)?.clone(), node.value(1)?.clone());
    let y = rms(b, &x, &w, op.eps);
    Ok(vec![functions::binary(b, Binary::Add, &y, node.value(2)?)])
}

pub(super) fn gated_rms_norm(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::GatedRmsNorm(op) = node.op else { return Err(node.mismatch()) };
    let (x, w, gate) = (node.value(0)?.clone(), node.value(1)?.clone(), node.value(2)?.clone());
    let (wide, gate) = (b.convert(&x, x.el.wide()), b.convert(&gate, x.el.wide()));
    let y = rms(b, &wide, &w, op.eps);
    let gate = functions::unary(b, op.act, &gate);
    let y = b.mul(&y, &gate);
    Ok(vec![b.convert(&y, x.el)])
}

/// `(x - mean) / sqrt(variance + eps)` over some axes, of which there are `n` elements.
fn standardised(b: &mut Builder, x: &V, axes: &[usize], eps: f32) -> V {
    let n = axes.iter().map(|&i| x.dims[i]).product::<u64>() as f64;
    let kept: Vec<usize> = (0..x.dims.len()).filter(|i| !axes.contains(i)).collect();
    let mean = |b: &mut Builder, x: &V| {
        let sum = b.sum(x, axes);
        b.with("divide", &sum, n)
    };
    let middle = mean(b, x);
    let middle = b.repeat(&middle, &x.dims, &kept);
    let off = b.sub(x, &middle);
    let squares = b.mul(&off, &off);
    let variance = mean(b, &squares);
    let shifted = b.with("add", &variance, eps.into());
    let inverse = b.unary("rsqrt", &shifted);
    let inverse = b.repeat(&inverse, &x.dims, &kept);
    b.mul(&off, &inverse)
}

/// Times a scale and plus a bias, each of one axis.
fn scaled(b: &mut Builder, y: &V, weights: &[V], axis: usize) -> V {
    let mut y = y.clone();
    for (op, w) in ["multiply", "add"].into_iter().zip(weights) {
        let w = b.convert(w, y.el);
        let w = b.repeat(&w, &y.dims, &[axis]);
        y = b.binary(op, &y, &w);
    }
    y
}

pub(super) fn takes_standard(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["eps", "bias", "groups"])?;
    are_floats(operands)
}

pub(super) fn layer_norm(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::LayerNorm(op) = node.op else { return Err(node.mismatch()) };
    let x = node.value(0)?.clone();
    let wide = b.convert(&x, x.el.wide());
    let last = x.dims.len() - 1;
    let y = standardised(b, &wide, &[last], op.eps);
    let y = scaled(b, &y, &node.values[1..], last);
    Ok(vec![b.convert(&y, x.el)])
}

pub(super) fn group_norm(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::GroupNorm(op) = node.op else { return Err(node.mismatch()) };
    let x = node.value(0)?.clone();
    let wide = b.convert(&x, x.el.wide());
    let rest: u64 = x.dims[2..].iter().product::<u64>() * x.dims[1] / op.groups.max(1);
    let runs = b.reshape(&wide, &[x.dims[0], op.groups, rest]);
    let y = standardised(b, &runs, &[2], op.eps);
    let y = b.reshape(&y, &x.dims);
    let y = scaled(b, &y, &node.values[1..], 1);
    Ok(vec![b.convert(&y, x.el)])
}

/// `x * w / sqrt(mean(x^2) + eps)` over the last axis, rounded once to the type of `x`.
pub(super) fn rms(b: &mut Builder, x: &V, w: &V, eps: f32) -> V {
    let wide = b.convert(x, x.el.wide());
    let last = x.dims.len() - 1;
    let squares = b.mul(&wide, &wide);
    let sum = b.sum(&squares, &[last]);
    let mean = b.with("divide", &sum, x.dims[last] as f64);
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
