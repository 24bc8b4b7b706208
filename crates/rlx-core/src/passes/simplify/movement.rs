//! Reshapes, transposes, slices and their like: fewer of them, and nearer to the inputs.

use crate::error::Result;
use crate::ir::mir::{Node, ValueId};
use crate::ops::{Expand, Op, Reduction, Reshape, Reverse, Slice, Transpose};
use crate::order;
use crate::passes::sweep::{Rewrite, Sweep};
use crate::types::{Dim, Shape};
use alloc::vec;
use alloc::vec::Vec;

type Rewritten = Result<Option<Rewrite>>;

/// Elementwise nodes that a movement looks through for another of its kind.
const FAR: usize = 8;

/// The operator that made `v`, and the one operand it has.
fn made<'a>(s: &'a Sweep<'_>, v: ValueId) -> Option<(&'a Op, ValueId)> {
    match s.maker(v)? {
        Node { op, inputs, .. } if inputs.len() == 1 => Some((op, inputs[0])),
        _ => None,
    }
}

fn is_one(dim: &Dim) -> bool {
    dim.as_static() == Some(1)
}

/// A reshape of a reshape is one; to the operand's own shape it is the operand.
pub(super) fn reshape(s: &mut Sweep<'_>, node: &Node) -> Rewritten {
    let (Op::Reshape(op), &[x]) = (&node.op, &node.inputs[..]) else { return Ok(None) };
    if s.ty(x).shape == op.dims {
        return Ok(Some(Rewrite::Value(x)));
    }
    Ok(match made(s, x) {
        Some((Op::Reshape(_), first)) => Some(Rewrite::Node(node.op.clone(), vec![first])),
        _ => None,
    })
}

/// A transpose of a transpose is one; one that leaves every axis, or moves only axes of size 1, is
/// the operand or a reshape of it.
pub(super) fn transpose(s: &mut Sweep<'_>, node: &Node) -> Rewritten {
    let (Op::Transpose(op), &[x]) = (&node.op, &node.inputs[..]) else { return Ok(None) };
    if op.perm.iter().enumerate().all(|(i, &axis)| i == axis) {
        return Ok(Some(Rewrite::Value(x)));
    }
    if let Some((Op::Transpose(inner), first)) = made(s, x) {
        let perm: Option<Vec<usize>> =
            op.perm.iter().map(|&axis| inner.perm.get(axis).copied()).collect();
        return Ok(perm.map(|perm| Rewrite::Node(Transpose { perm }.into(), vec![first])));
    }
    let dims = &s.ty(x).shape.0;
    let wide = op.perm.iter().filter(|&&axis| dims.get(axis).is_some_and(|d| !is_one(d)));
    if wide.is_sorted() {
        let dims = s.ty(node.outputs[0]).shape.clone();
        return Ok(Some(Rewrite::Node(Reshape { dims }.into(), vec![x])));
    }
    Ok(None)
}

/// Of a reverse of a reverse, the axes that only one of them turns; axes of size 1 are not turned.
pub(super) fn reverse(s: &mut Sweep<'_>, node: &Node) -> Rewritten {
    let (Op::Reverse(op), &[x]) = (&node.op, &node.inputs[..]) else { return Ok(None) };
    let dims = &s.ty(x).shape.0;
    let turned = |axis: &usize| dims.get(*axis).is_some_and(|d| !is_one(d));
    let mut axes: Vec<usize> = op.axes.iter().copied().filter(turned).collect();
    let mut from = x;
    if let Some((Op::Reverse(inner), first)) = made(s, x) {
        let twice: Vec<usize> = axes.iter().copied().filter(|a| inner.axes.contains(a)).collect();
        axes.extend(inner.axes.iter().copied().filter(turned));
        axes.retain(|a| !twice.contains(a));
        from = first;
    }
    order::sort(&mut axes);
    Ok(match () {
        () if axes.is_empty() => Some(Rewrite::Value(from)),
        () if from != x || axes.len() < op.axes.len() => {
            Some(Rewrite::Node(Reverse { axes }.into(), vec![from]))
        }
        () => None,
    })
}

/// A slice of everything is the operand; of a slice with step 1 it is one slice; of a concat, where
/// one operand has all of it, a slice of that operand.
pub(super) fn slice(s: &mut Sweep<'_>, node: &Node) -> Rewritten {
    let (Op::Slice(op), &[x]) = (&node.op, &node.inputs[..]) else { return Ok(None) };
    let whole = s.ty(x).shape.0.get(op.axis) == Some(&op.len);
    if whole && op.step == 1 && op.start.as_static() == Some(0) {
        return Ok(Some(Rewrite::Value(x)));
    }
    let Some(maker) = s.maker(x) else { return Ok(None) };
    match &maker.op {
        Op::Slice(inner) if inner.axis == op.axis && inner.step == 1 => {
            let start = inner.start.add(&op.start)?;
            let slice = Slice { start, ..op.clone() };
            Ok(Some(Rewrite::Node(slice.into(), maker.inputs.clone())))
        }
        Op::Concat(concat) if concat.axis == op.axis && op.step == 1 => {
            let (Some(start), Some(len)) = (op.start.as_static(), op.len.as_static()) else {
                return Ok(None);
            };
            let mut from = 0u64;
            for &part in &maker.inputs {
                let size = s.ty(part).shape.0.get(op.axis).and_then(Dim::as_static);
                let Some(to) = size.and_then(|n| from.checked_add(n)) else { return Ok(None) };
                if from <= start && start.checked_add(len).is_some_and(|end| end <= to) {
                    let slice = Slice { start: Dim::from(start - from), ..op.clone() };
                    return Ok(Some(Rewrite::Node(slice.into(), vec![part])));
                }
                from = to;
            }
            Ok(None)
        }
        _ => Ok(None),
    }
}

/// A concat of one operand is the operand.
pub(super) fn concat(_: &mut Sweep<'_>, node: &Node) -> Rewritten {
    Ok(match (&node.op, &node.inputs[..]) {
        (Op::Concat(_), &[x]) => Some(Rewrite::Value(x)),
        _ => None,
    })
}

/// An expand to the operand's own shape is the operand; of an expand it is one.
pub(super) fn expand(s: &mut Sweep<'_>, node: &Node) -> Rewritten {
    let (Op::Expand(op), &[x]) = (&node.op, &node.inputs[..]) else { return Ok(None) };
    if s.ty(x) == s.ty(node.outputs[0]) {
        return Ok(Some(Rewrite::Value(x)));
    }
    Ok(match made(s, x) {
        Some((Op::Expand(_), first)) => {
            Some(Rewrite::Node(Expand { dims: op.dims.clone() }.into(), vec![first]))
        }
        _ => None,
    })
}

/// A pad of nothing, and a roll by nothing.
pub(super) fn nothing_moves(_: &mut Sweep<'_>, node: &Node) -> Rewritten {
    let &[x] = &node.inputs[..] else { return Ok(None) };
    let nothing = match &node.op {
        Op::Pad(op) => op.low.iter().chain(&op.high).all(|&n| n == 0),
        Op::Roll(op) => op.shifts.iter().all(|&n| n == 0),
        _ => false,
    };
    Ok(nothing.then_some(Rewrite::Value(x)))
}

/// A reduction of axes of size 1 is a reshape, or nothing: of integers, and a product of floats.
/// A sum of -0.0 alone is 0.0, and a NaN is no maximum.
pub(super) fn reduce_of_one(s: &mut Sweep<'_>, node: &Node) -> Rewritten {
    let (Op::Reduce(op), &[x]) = (&node.op, &node.inputs[..]) else { return Ok(None) };
    if op.f != Reduction::Prod && s.ty(x).dtype.is_float() {
        return Ok(None);
    }
    let dims = &s.ty(x).shape.0;
    if !op.axes.iter().all(|&axis| dims.get(axis).is_some_and(is_one)) {
        return Ok(None);
    }
    let dims = s.ty(node.outputs[0]).shape.clone();
    Ok(Some(Rewrite::Node(Reshape { dims }.into(), vec![x])))
}

/// A movement of an elementwise node's result moves before the node, if another movement of its
/// kind made what the node reads, directly or through more such nodes.
///
/// ```text
/// %t = reshape %x            %t = reshape %x
/// %u = cast %t        =>     %v = reshape %t
/// %y = reshape %u            %y = cast %v
/// ```
pub(super) fn towards_inputs(s: &mut Sweep<'_>, node: &Node) -> Rewritten {
    let &[x] = &node.inputs[..] else { return Ok(None) };
    if !matches!(node.op, Op::Reshape(_) | Op::Transpose(_)) {
        return Ok(None);
    }
    let rank = s.ty(node.outputs[0]).shape.rank();
    let kind = core::mem::discriminant(&node.op);
    let mut at = x;
    for _ in 0..FAR {
        let Some(i) = passed(s, at, rank) else { return Ok(None) };
        let Some(maker) = s.maker(at) else { return Ok(None) };
        at = maker.inputs[i];
        let Some(before) = s.maker(at) else { return Ok(None) };
        if core::mem::discriminant(&before.op) != kind {
            continue;
        }
        let (Some(i), Some(maker)) = (passed(s, x, rank), s.maker(x).cloned()) else { break };
        let mut inputs = maker.inputs;
        let Ok(moved) = s.emit(node.op.clone(), &[inputs[i]]) else { break };
        inputs[i] = moved;
        return Ok(Some(Rewrite::Node(maker.op, inputs)));
    }
    Ok(None)
}

/// Which operand of the node that made `v` has its shape, if the node is elementwise, nothing else
/// reads `v`, and any other operand is one element that stays one for results of `rank` axes.
fn passed(s: &Sweep<'_>, v: ValueId, rank: usize) -> Option<usize> {
    let node = s.maker(v).filter(|_| s.uses(v) == 1)?;
    let elementwise =
        matches!(node.op, Op::Map(_) | Op::Cast(_) | Op::Clamp(_) | Op::Zip(_) | Op::Compare(_));
    let shape = &s.ty(v).shape;
    let single = |x: &ValueId| {
        let Shape(dims) = &s.ty(*x).shape;
        dims.len() <= rank.min(shape.rank()) && dims.iter().all(is_one)
    };
    match &node.inputs[..] {
        _ if !elementwise => None,
        [_] => Some(0),
        [a, b] if s.ty(*a).shape == *shape && single(b) => Some(0),
        [a, b] if s.ty(*b).shape == *shape && single(a) => Some(1),
        _ => None,
    }
}
