//! What folds, orders or searches an axis.

use super::builder::{Builder, El, V};
use super::takes::{Taken, are_real, fits, knows};
use super::{Node, scan};
use rlx_core::Result;
use rlx_core::ops::{Op, Reduction};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["f", "axes", "keep", "axis", "exclusive", "descending", "k"])?;
    are_real(operands)?;
    let x = operands.first().ok_or("it has no operand")?;
    fits(0, x, |t| t != DType::BOOL)?;
    let axis = match op {
        Op::ArgMax(op) => op.axis,
        Op::ArgMin(op) => op.axis,
        _ => return Ok(()),
    };
    match x.shape.0.get(axis).and_then(|d| d.as_static()) {
        Some(0) => Err("it searches no axis without elements".into()),
        _ => Ok(()),
    }
}

/// Floats without those that are no numbers, for which `instead` stands.
fn numbers(b: &mut Builder, x: &V, instead: f64) -> V {
    if !x.el.is_float() {
        return x.clone();
    }
    let is_number = b.compare("EQ", x, x);
    let instead = b.splat(x.el, &x.dims, instead);
    b.select(&is_number, x, &instead)
}

/// The least number of a type, and of floats minus infinity; or the largest.
fn end(el: El, largest: bool) -> f64 {
    match (el.is_float(), largest) {
        (_, true) => f64::INFINITY,
        (_, false) => f64::NEG_INFINITY,
    }
}

pub(super) fn reduce(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Reduce(op) = node.op else { return Err(node.mismatch()) };
    let x = node.value(0)?.clone();
    let result = node.result(0)?;
    let wide = b.convert(&x, x.el.wide());
    let y = match op.f {
        Reduction::Sum => b.sum(&wide, &op.axes),
        Reduction::Mean => {
            let n = op.axes.iter().map(|&i| x.dims[i]).product::<u64>();
            let sum = b.sum(&wide, &op.axes);
            b.with("divide", &sum, n as f64)
        }
        Reduction::Max | Reduction::Min => {
            let is_min = op.f == Reduction::Min;
            let start = end(wide.el, is_min);
            let plain = numbers(b, &wide, start);
            b.reduce(if is_min { "minimum" } else { "maximum" }, &plain, start, &op.axes)
        }
        Reduction::Prod => b.reduce("multiply", &wide, 1.0, &op.axes),
    };
    let y = b.convert(&y, x.el);
    Ok(vec![b.reshape(&y, &result)])
}

pub(super) fn softmax(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Softmax(op) = node.op else { return Err(node.mismatch()) };
    let x = node.value(0)?.clone();
    let kept: Vec<usize> = (0..x.dims.len()).filter(|&i| i != op.axis).collect();
    let wide = b.convert(&x, x.el.wide());
    let most = b.reduce("maximum", &wide, f64::NEG_INFINITY, &[op.axis]);
    let most = b.repeat(&most, &x.dims, &kept);
    let off = b.sub(&wide, &most);
    let powers = b.unary("exponential", &off);
    let sum = b.sum(&powers, &[op.axis]);
    let sum = b.repeat(&sum, &x.dims, &kept);
    let y = b.div(&powers, &sum);
    Ok(vec![b.convert(&y, x.el)])
}

pub(super) fn cumsum(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::CumSum(op) = node.op else { return Err(node.mismatch()) };
    let x = node.value(0)?.clone();
    if x.elements() == 0 {
        return Ok(vec![x]);
    }
    let wide = b.convert(&x, x.el.wide());
    let order: Vec<usize> =
        (0..x.dims.len()).filter(|&i| i != op.axis).chain(std::iter::once(op.axis)).collect();
    let moved = b.transpose(&wide, &order);
    let n = x.dims[op.axis];
    let rows = b.reshape(&moved, &[x.elements() / n, n]);
    let sums = match op.exclusive {
        true => {
            // An element behind each sum: a difference of the two would round twice.
            let zero = b.scalar(wide.el, 0.0);
            let before = b.part(&rows, 1, 0, n - 1);
            let before = b.pad(&before, &zero, &[0, 1], &[0, 0], &[0, 0]);
            scan::running(b, &before)
        }
        false => scan::running(b, &rows),
    };
    let y = b.reshape(&sums, &moved.dims);
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, &axis)| back[axis] = i);
    let y = b.transpose(&y, &back);
    Ok(vec![b.convert(&y, x.el)])
}

/// Values and their indices along an axis, in order.
fn sorted(b: &mut Builder, x: &V, axis: usize, descending: bool) -> Vec<V> {
    let ids = b.iota(El::U32, &x.dims, axis);
    b.sort(&[x.clone(), ids], axis, |b, pairs| {
        let [mut first, mut second] = pairs[0].clone();
        if descending {
            std::mem::swap(&mut first, &mut second);
        }
        let less = b.compare("LT", &first, &second);
        if !x.el.is_float() {
            return less;
        }
        // What is no number is larger than all.
        let number = b.compare("EQ", &first, &first);
        let none = b.compare("NE", &second, &second);
        let last = b.and(&number, &none);
        b.or(&less, &last)
    })
}

pub(super) fn sort(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Sort(op) = node.op else { return Err(node.mismatch()) };
    let x = node.value(0)?.clone();
    Ok(sorted(b, &x, op.axis, op.descending))
}

pub(super) fn top_k(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::TopK(op) = node.op else { return Err(node.mismatch()) };
    let x = node.value(0)?.clone();
    let last = x.dims.len() - 1;
    let sorted = sorted(b, &x, last, true);
    Ok(vec![b.part(&sorted[1], last, 0, op.k)])
}

pub(super) fn extreme(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let (axis, is_min) = match node.op {
        Op::ArgMax(op) => (op.axis, false),
        Op::ArgMin(op) => (op.axis, true),
        _ => return Err(node.mismatch()),
    };
    let x = node.value(0)?.clone();
    let start = end(x.el, is_min);
    let plain = numbers(b, &x, start);
    let best = b.reduce(if is_min { "minimum" } else { "maximum" }, &plain, start, &[axis]);
    let kept: Vec<usize> = (0..x.dims.len()).filter(|&i| i != axis).collect();
    let best = b.repeat(&best, &x.dims, &kept);
    let same = b.compare("EQ", &x, &best);
    let ids = b.iota(El::U32, &x.dims, axis);
    let none = b.integer(El::U32, &x.dims, u64::from(u32::MAX));
    let ids = b.select(&same, &ids, &none);
    let first = b.reduce("minimum", &ids, f64::from(u32::MAX), &[axis]);
    // None is the best where none is a number.
    let nothing = b.compare_with("EQ", &first, f64::from(u32::MAX));
    let zero = b.integer(El::U32, &first.dims, 0);
    let first = b.select(&nothing, &zero, &first);
    let dims = node.result(0)?;
    Ok(vec![b.reshape(&first, &dims)])
}
