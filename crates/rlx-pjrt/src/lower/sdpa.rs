//! Attention without a cache.

use super::Node;
use super::builder::{Axes, Builder, El, V};
use super::elementwise::repeat;
use super::takes::{Taken, fits, knows};
use rlx_core::Result;
use rlx_core::ops::{HeadLayout, Mask, Op, Sdpa};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(
        op,
        &[
            "heads", "kv_heads", "head_dim", "v_head_dim", "mask", "window", "scale", "softcap", "layout",
        ],
    )?;
    operands.iter().enumerate().try_for_each(|(i, ty)| match i {
        0..3 => fits(i, ty, DType::is_float),
        _ => fits(i, ty, |t| t.is_float() || t == DType::BOOL),
    })
}

pub(super) fn sdpa(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Sdpa(op) = node.op else { return Err(node.mismatch()) };
    let to = node.value(0)?.el;
    let el = to.wide();
    let (heads, keys) = (op.heads as u64, op.kv_heads as u64);
    let group = heads / keys.max(1);
    let q = heads_of(b, op, node.value(0)?, heads, el);
    let k = heads_of(b, op, node.value(1)?, keys, el);
    let v = heads_of(b, op, node.value(2)?, keys, el);
    let [batch, rows, columns] = [q.dims[0], q.dims[1], k.dims[1]];
    let result = node.result(0)?;
    if q.elements() == 0 || columns == 0 || v.elements() == 0 {
        return Ok(vec![b.splat(to, &result, 0.0)]);
    }
    let q = b.reshape(&q, &[batch, rows, keys, group, q.dims[3]]);
    // [batch, keys, rows, group, columns]
    let axes = Axes { batch: [vec![0, 2], vec![0, 2]], contract: [vec![4], vec![3]] };
    let scores = b.dot(&q, &k, &axes);
    let scores = b.with("multiply", &scores, op.score_scale());
    let mut scores = match op.softcap {
        Some(cap) => {
            let inner = b.with("divide", &scores, cap.into());
            let inner = b.unary("tanh", &inner);
            b.with("multiply", &inner, cap.into())
        }
        None => scores,
    };
    let dims = scores.dims.clone();
    let mut hide = |b: &mut Builder, seen: &V, axes: &[usize]| {
        let seen = b.repeat(seen, &dims, axes);
        let hidden = b.splat(el, &dims, f64::NEG_INFINITY);
        scores = b.select(&seen, &scores, &hidden);
    };
    match op.mask {
        Mask::None => {}
        Mask::Causal | Mask::Window(_) => {
            let grid = [rows, columns];
            let i = b.iota(El::I64, &grid, 0);
            let first = b.scalar(El::I64, columns as f64 - rows as f64);
            let first = b.repeat(&first, &grid, &[]);
            let position = b.add(&i, &first);
            // With fewer keys than queries the first ones stand at position 0.
            let zero = b.splat(El::I64, &grid, 0.0);
            let position = b.max(&position, &zero);
            let column = b.iota(El::I64, &grid, 1);
            let mut seen = b.compare("LE", &column, &position);
            if let Mask::Window(window) = op.mask {
                let back = b.sub(&position, &column);
                let near = b.compare_with("LE", &back, window.min(1 << 40) as f64);
                seen = b.and(&seen, &near);
            }
            hide(b, &seen, &[2, 4]);
        }
        Mask::Custom => {
            let valid = node.value(3)?.clone();
            let seen = match valid.el {
                El::Bool => valid,
                _ => b.compare_with("LT", &valid, 0.5),
            };
            let seen = if node.value(3)?.el == El::Bool { seen } else { b.not(&seen) };
            hide(b, &seen, &[0, 4]);
        }
        Mask::Bias => {
            let bias = added(b, node.value(3)?, el, [batch, keys, group, rows, columns]);
            scores = b.add(&scores, &bias);
        }
        Mask::Grid => {
            let (of_rows, of_columns) = (node.value(3)?.clone(), node.value(4)?.clone());
            let (r, c) = (of_rows.dims[3], of_columns.dims[3]);
            for (bias, axis) in [(of_rows, 5), (of_columns, 6)] {
                let n = if axis == 5 { r } else { c };
                let bias = added(b, &bias, el, [batch, keys, group, rows, n]);
                let wide = [batch, keys, rows, group, r, c];
                let bias = b.repeat(&bias, &wide, &[0, 1, 2, 3, axis - 1]);
                let bias = b.reshape(&bias, &scores.dims);
                scores = b.add(&scores, &bias);
            }
        }
    }
    let most = b.reduce("maximum", &scores, f64::NEG_INFINITY, &[4]);
    let nothing = b.compare_with("EQ", &most, f64::NEG_INFINITY);
    let zero = b.splat(el, &most.dims, 0.0);
    let most = b.select(&nothing, &zero, &most);
    let wide = b.repeat(&most, &scores.dims, &[0, 1, 2, 3]);
    let off = b.sub(&scores, &wide);
    let weights = b.unary("exponential", &off);
    let sum = b.sum(&weights, &[4]);
    let one = b.splat(el, &sum.dims, 1.0);
    let sum = b.select(&nothing, &one, &sum);
    let axes = Axes { batch: [vec![0, 1], vec![0, 2]], contract: [vec![4], vec![1]] };
    let y = b.dot(&weights, &v, &axes);
    let sum = b.repeat(&sum, &y.dims.clone(), &[0, 1, 2, 3]);
    let y = b.div(&y, &sum);
    let order: &[usize] = match op.layout {
        HeadLayout::Bshd => &[0, 2, 1, 3, 4],
        HeadLayout::Bhsd => &[0, 1, 3, 2, 4],
    };
    let y = b.transpose(&y, order);
    let y = b.reshape(&y, &result);
    Ok(vec![b.convert(&y, to)])
}

/// An operand as `[B, S, H, E]` in the wide type.
fn heads_of(b: &mut Builder, op: &Sdpa, x: &V, heads: u64, el: El) -> V {
    let x = b.convert(x, el);
    match (op.layout, x.dims.len()) {
        (HeadLayout::Bhsd, _) => b.transpose(&x, &[0, 2, 1, 3]),
        (HeadLayout::Bshd, 3) => {
            let width = x.dims[2].checked_div(heads).unwrap_or(0);
            b.reshape(&x, &[x.dims[0], x.dims[1], heads, width])
        }
        _ => x,
    }
}

/// What is added to scores, of an operand `[B, H, S, n]` whose axes of size 1 repeat: `[B, K, S, G, n]`.
fn added(b: &mut Builder, x: &V, el: El, [batch, keys, group, rows, n]: [u64; 5]) -> V {
    let x = b.convert(x, el);
    let x = repeat(b, &x, &[batch, keys * group, rows, n]);
    let x = b.reshape(&x, &[batch, keys, group, rows, n]);
    b.transpose(&x, &[0, 1, 3, 2, 4])
}
