//! How often a loop runs, where a counter says.

use super::TRIPS;
use super::inline::integer;
use crate::ir::mir::{Graph, Node, ValueId};
use crate::ops::{Binary, Comparison, Op, While};
use crate::types::{DType, Scalar};

/// Trips of the loop, if a carried integer counts them and they are at most [`TRIPS`]. `constant`
/// knows operands of the node.
pub(super) fn trips(
    op: &While,
    cond: &Graph,
    body: &Graph,
    operands: &[ValueId],
    constant: &dyn Fn(ValueId) -> Option<i64>,
) -> Option<u64> {
    // A constant of a region: one of its own, or a capture that is one outside. What is carried
    // is known before the first trip only.
    let known = |region: &Graph, v: ValueId| match maker(region, v) {
        Some(node) => integer(&node.op),
        None => {
            let at = parameter(region, v).filter(|&at| at >= op.carried)?;
            constant(*operands.get(at)?)
        }
    };
    let holds = cond.outputs.first()?.value;
    let test = match maker(cond, holds) {
        Some(node) => node,
        None => return (known(cond, holds)? == 0).then_some(0),
    };
    if let Some(always) = integer(&test.op) {
        return (always == 0).then_some(0);
    }
    let (Op::Compare(compare), &[a, b]) = (&test.op, &test.inputs[..]) else { return None };
    let carried = |v| parameter(cond, v).filter(|&at| at < op.carried);
    let (at, bound, swapped) = match (carried(a), carried(b)) {
        (Some(at), None) => (at, known(cond, b)?, false),
        (None, Some(at)) => (at, known(cond, a)?, true),
        _ => return None,
    };
    let mut n = constant(*operands.get(at)?)?;
    let holds = |n: i64| {
        let (a, b) = if swapped { (bound, n) } else { (n, bound) };
        match compare.f {
            Comparison::Eq => a == b,
            Comparison::Ne => a != b,
            Comparison::Lt => a < b,
            Comparison::Le => a <= b,
            Comparison::Gt => a > b,
            Comparison::Ge => a >= b,
        }
    };
    if !holds(n) {
        return Some(0);
    }
    let step = maker(body, body.outputs.get(at)?.value)?;
    let (Op::Zip(zip), &[a, b]) = (&step.op, &step.inputs[..]) else { return None };
    let counts = |v| parameter(body, v) == Some(at);
    let by = match zip.f {
        Binary::Add if counts(a) => known(body, b)?,
        Binary::Add if counts(b) => known(body, a)?,
        Binary::Sub if counts(a) => known(body, b)?.checked_neg()?,
        _ => return None,
    };
    let dtype = body.ty(body.outputs.get(at)?.value).dtype;
    for trips in 1..=TRIPS {
        n = n.checked_add(by)?;
        // A counter that wraps is no counter.
        match dtype {
            DType::Scalar(Scalar::U32) => drop(u32::try_from(n).ok()?),
            DType::Scalar(Scalar::I32) => drop(i32::try_from(n).ok()?),
            DType::Scalar(Scalar::I64) => {}
            _ => return None,
        }
        if !holds(n) {
            return Some(trips);
        }
    }
    None
}

fn maker(region: &Graph, v: ValueId) -> Option<&Node> {
    region.nodes.iter().find(|n| n.outputs.contains(&v))
}

fn parameter(region: &Graph, v: ValueId) -> Option<usize> {
    region.params.iter().position(|p| p.value == v)
}
