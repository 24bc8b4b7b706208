//! Operators that move elements, of any type that is not packed.

use super::builder::{Builder, El, V};
use super::elementwise::repeat;
use super::gather::place;
use super::takes::{Taken, fits, knows};
use super::{Node, functions};
use rlx_core::Result;
use rlx_core::ops::{Op, PadMode, Slice};
use rlx_core::target::Target;
use rlx_core::types::{DType, Scalar, Type};

/// What all of them take; sizes of axes that indices point into are known and not 0.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(
        op,
        &["axis", "start", "len", "step", "dims", "perm", "axes", "shifts", "low", "high", "mode", "value", "type"],
    )?;
    if matches!(op, Op::Slice(_)) {
        return Ok(());
    }
    operands.iter().enumerate().try_for_each(|(i, ty)| fits(i, ty, |t| !t.is_block()))?;
    let of_axis = |axis: usize| operands.first().and_then(|t| t.shape.0.get(axis)?.as_static());
    match op {
        Op::GatherElements(op) if of_axis(op.axis) == Some(0) => Err("it reads no axis without elements".into()),
        Op::ScatterAdd(_) => fits(0, operands[0], |t| t != DType::BOOL && t != DType::Scalar(Scalar::C64)),
        _ => Ok(()),
    }
}

pub(super) fn slice(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Slice(op) = node.op else { return Err(node.mismatch()) };
    // Rows of packed tensors are bytes, which stay whole.
    let (mut x, ty) = (node.value(0)?.clone(), node.ty(0)?);
    if ty.dtype.is_block() {
        let mut dims = ty.shape.static_dims()?;
        let row = dims.last().and_then(|&n| ty.dtype.row_bytes(n)).ok_or_else(|| node.mismatch())?;
        dims.pop();
        dims.push(row);
        x = b.reshape(&x, &dims);
    }
    let y = sliced(b, node, op, &x)?;
    Ok(vec![if ty.dtype.is_block() { b.reshape(&y, &[y.elements()]) } else { y }])
}

fn sliced(b: &mut Builder, node: &Node<'_>, op: &Slice, x: &V) -> Result<V> {
    let (Some(start), Some(len)) = (op.start.as_static(), op.len.as_static()) else {
        return Err(node.mismatch());
    };
    let step = op.step.unsigned_abs().max(1);
    let reach = len.saturating_sub(1).saturating_mul(step);
    let mut ranges: Vec<(u64, u64, u64)> = x.dims.iter().map(|&d| (0, d, 1)).collect();
    if len == 0 {
        ranges[op.axis] = (0, 0, 1);
        return Ok(b.slice(x, &ranges));
    }
    if op.step > 0 {
        ranges[op.axis] = (start, start + reach + 1, step);
        return Ok(b.slice(x, &ranges));
    }
    let first = start.checked_sub(reach).ok_or_else(|| node.mismatch())?;
    ranges[op.axis] = (first, start + 1, step);
    let y = b.slice(x, &ranges);
    Ok(b.reverse(&y, &[op.axis]))
}

pub(super) fn concat(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Concat(op) = node.op else { return Err(node.mismatch()) };
    Ok(vec![b.concat(&node.values, op.axis)])
}

pub(super) fn transpose(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Transpose(op) = node.op else { return Err(node.mismatch()) };
    Ok(vec![b.transpose(node.value(0)?, &op.perm)])
}

pub(super) fn expand(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let dims = node.result(0)?;
    Ok(vec![repeat(b, node.value(0)?, &dims)])
}

pub(super) fn reverse(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Reverse(op) = node.op else { return Err(node.mismatch()) };
    Ok(vec![b.reverse(node.value(0)?, &op.axes)])
}

pub(super) fn roll(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Roll(op) = node.op else { return Err(node.mismatch()) };
    let mut x = node.value(0)?.clone();
    for (&axis, &shift) in op.axes.iter().zip(&op.shifts) {
        let n = x.dims[axis];
        if n == 0 {
            continue;
        }
        let by = i128::from(shift).rem_euclid(i128::from(n)) as u64;
        if by > 0 {
            let parts = [b.part(&x, axis, n - by, by), b.part(&x, axis, 0, n - by)];
            x = b.concat(&parts, axis);
        }
    }
    Ok(vec![x])
}

pub(super) fn pad(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Pad(op) = node.op else { return Err(node.mismatch()) };
    let mut x = node.value(0)?.clone();
    if let PadMode::Constant(value) = op.mode {
        let wide = b.scalar(El::F32, value.into());
        let value = match x.el {
            El::C64 => b.scalar(El::C64, value.into()),
            el => functions::cast(b, &wide, el),
        };
        let ends = |all: &[u64]| all.iter().map(|&n| i64::try_from(n)).collect::<Result<Vec<i64>, _>>();
        let (Ok(low), Ok(high)) = (ends(&op.low), ends(&op.high)) else { return Err(node.mismatch()) };
        let between = vec![0; low.len()];
        return Ok(vec![b.pad(&x, &value, &low, &high, &between)]);
    }
    for axis in 0..x.dims.len() {
        let (low, high, n) = (op.low[axis], op.high[axis], x.dims[axis]);
        let mut all = Vec::new();
        for (count, is_low) in [(low, true), (high, false)] {
            if count > 0 {
                let part = match op.mode {
                    PadMode::Reflect => {
                        let part = b.part(&x, axis, if is_low { 1 } else { n - 1 - count }, count);
                        b.reverse(&part, &[axis])
                    }
                    PadMode::Circular => b.part(&x, axis, if is_low { n - count } else { 0 }, count),
                    _ => {
                        let edge = b.part(&x, axis, if is_low { 0 } else { n - 1 }, 1);
                        let mut dims = x.dims.clone();
                        dims[axis] = count;
                        repeat(b, &edge, &dims)
                    }
                };
                all.push(part);
            }
            if is_low {
                all.push(x.clone());
            }
        }
        x = b.concat(&all, axis);
    }
    Ok(vec![x])
}

pub(super) fn iota(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Iota(op) = node.op else { return Err(node.mismatch()) };
    let (el, dims) = (node.result_el(0)?, node.result(0)?);
    // Floats are rounded integers, and integers wrap.
    let y = b.iota(El::I64, &dims, op.axis);
    Ok(vec![b.convert(&y, el)])
}

pub(super) fn gather_elements(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::GatherElements(op) = node.op else { return Err(node.mismatch()) };
    let (x, ids) = (node.value(0)?.clone(), node.value(1)?.clone());
    if ids.elements() == 0 {
        return Ok(vec![b.splat(x.el, &ids.dims, 0.0)]);
    }
    let at = place(b, &ids, x.dims[op.axis]);
    let at = b.convert(&at, El::I64);
    let mut flat = b.splat(El::I64, &ids.dims, 0.0);
    let mut stride = 1;
    for axis in (0..x.dims.len()).rev() {
        let index = if axis == op.axis { at.clone() } else { b.iota(El::I64, &ids.dims, axis) };
        let index = b.with("multiply", &index, stride as f64);
        flat = b.add(&flat, &index);
        stride *= x.dims[axis];
    }
    let all = b.reshape(&x, &[x.elements()]);
    Ok(vec![b.take(&all, &flat, 0)])
}

pub(super) fn scatter_add(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::ScatterAdd(op) = node.op else { return Err(node.mismatch()) };
    let (x, ids, updates) = (node.value(0)?.clone(), node.value(1)?.clone(), node.value(2)?.clone());
    let to = x.el.wide();
    let front: Vec<usize> =
        std::iter::once(op.axis).chain((0..x.dims.len()).filter(|&i| i != op.axis)).collect();
    let [wide, updates] = [&x, &updates].map(|v| {
        let v = b.convert(v, to);
        b.transpose(&v, &front)
    });
    if wide.elements() == 0 || updates.elements() == 0 {
        return Ok(vec![x]);
    }
    // What stays outside after that is dropped.
    let wide_ids = b.convert(&ids, El::I64);
    let from_end = b.with("add", &wide_ids, x.dims[op.axis] as f64);
    let below = b.compare_with("LT", &wide_ids, 0.0);
    let at = b.select(&below, &from_end, &wide_ids);
    let y = b.scatter(&wide, &at, &updates, true);
    let mut back = vec![0; front.len()];
    front.iter().enumerate().for_each(|(i, &axis)| back[axis] = i);
    let y = b.transpose(&y, &back);
    Ok(vec![b.convert(&y, x.el)])
}

pub(super) fn state_write(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::StateWrite(op) = node.op else { return Err(node.mismatch()) };
    let (state, x, at) = (node.value(0)?.clone(), node.value(1)?.clone(), node.value(2)?.clone());
    if x.elements() == 0 {
        return Ok(vec![state]);
    }
    let x = functions::cast(b, &x, state.el);
    let at = b.reshape(&at, &[]);
    let most = b.scalar(at.el, state.dims[op.axis] as f64);
    let at = b.min(&at, &most);
    let at = b.convert(&at, El::I32);
    let zero = b.scalar(El::I32, 0.0);
    let starts: Vec<V> =
        (0..state.dims.len()).map(|i| if i == op.axis { at.clone() } else { zero.clone() }).collect();
    Ok(vec![b.dynamic_update(&state, &x, &starts)])
}
