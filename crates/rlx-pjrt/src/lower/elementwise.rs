//! Elementwise operators, and chains of them, whose operands repeat to one shape.

use super::builder::{Builder, V};
use super::functions;
use super::takes::{Taken, are_real, knows};
use super::{Node, el};
use rlx_core::Result;
use rlx_core::ops::{Op, StepFn, StepOperand};
use rlx_core::target::Target;
use rlx_core::types::{DType, Scalar, Type};

/// Numbers of any type that is not complex.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["f", "to", "min", "max", "steps"])?;
    are_real(operands)?;
    let complex = |to: DType| to == DType::Scalar(Scalar::C64);
    let casts_to_complex = match op {
        Op::Cast(cast) => complex(cast.to),
        Op::Region(region) => {
            region.steps.iter().any(|s| matches!(s.f, StepFn::Cast(to) if complex(to)))
        }
        _ => false,
    };
    if casts_to_complex { Err("its lowering computes with no c64".into()) } else { Ok(()) }
}

pub(super) fn map(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Map(op) = node.op else { return Err(node.mismatch()) };
    Ok(vec![step(b, StepFn::Map(op.f), &node.values)?])
}

pub(super) fn zip(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Zip(op) = node.op else { return Err(node.mismatch()) };
    Ok(vec![step(b, StepFn::Zip(op.f), &node.values)?])
}

pub(super) fn compare(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Compare(op) = node.op else { return Err(node.mismatch()) };
    Ok(vec![step(b, StepFn::Compare(op.f), &node.values)?])
}

pub(super) fn select(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    Ok(vec![step(b, StepFn::Select, &node.values)?])
}

pub(super) fn cast(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Cast(op) = node.op else { return Err(node.mismatch()) };
    Ok(vec![step(b, StepFn::Cast(op.to), &node.values)?])
}

pub(super) fn clamp(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Clamp(op) = node.op else { return Err(node.mismatch()) };
    Ok(vec![step(b, StepFn::Clamp(op.min, op.max), &node.values)?])
}

/// Every step rounds to its own type, as it would alone.
pub(super) fn region(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Region(op) = node.op else { return Err(node.mismatch()) };
    let mut made: Vec<V> = Vec::with_capacity(op.steps.len());
    for s in &op.steps {
        let operands = s.operands.iter().map(|x| match *x {
            StepOperand::Input(i) => node.value(i).cloned(),
            StepOperand::Step(i) => made.get(i).cloned().ok_or_else(|| node.mismatch()),
        });
        let operands = operands.collect::<Result<Vec<V>>>()?;
        let v = step(b, s.f, &operands)?;
        made.push(v);
    }
    let last = made.pop().ok_or_else(|| node.mismatch())?;
    Ok(vec![last])
}

/// One elementwise operator.
fn step(b: &mut Builder, f: StepFn, operands: &[V]) -> Result<V> {
    let shape = broadcast(operands);
    let same: Vec<V> = operands.iter().map(|x| repeat(b, x, &shape)).collect();
    Ok(match (f, same.as_slice()) {
        (StepFn::Map(f), [x]) => functions::unary(b, f, x),
        (StepFn::Zip(f), [x, y]) => functions::binary(b, f, x, y),
        (StepFn::Compare(f), [x, y]) => functions::compare(b, f, x, y),
        (StepFn::Select, [which, x, y]) => b.select(which, x, y),
        (StepFn::Cast(to), [x]) => functions::cast(b, x, el(to)?),
        (StepFn::Clamp(min, max), [x]) => {
            let wide = b.convert(x, x.el.wide());
            let y = functions::clamp(b, &wide, min.into(), max.into());
            b.convert(&y, x.el)
        }
        _ => return Err(rlx_core::Error::internal("an elementwise step has other operands")),
    })
}

/// The sizes that all repeat to, as NumPy has it.
fn broadcast(operands: &[V]) -> Vec<u64> {
    let rank = operands.iter().map(|x| x.dims.len()).max().unwrap_or(0);
    let size = |axis: usize| {
        let of = |x: &V| (axis + x.dims.len()).checked_sub(rank).map_or(1, |k| x.dims[k]);
        operands.iter().map(of).find(|&d| d != 1).unwrap_or(1)
    };
    (0..rank).map(size).collect()
}

/// Repeats a tensor to these sizes.
pub(super) fn repeat(b: &mut Builder, x: &V, dims: &[u64]) -> V {
    if x.dims == dims {
        return x.clone();
    }
    // Axes of size 1 may grow in place.
    b.repeat_last(x, dims)
}
