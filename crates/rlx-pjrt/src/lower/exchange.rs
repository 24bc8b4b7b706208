//! What devices that run a program together exchange: each is a replica, and all of them meet.

use super::Node;
use super::builder::{Builder, V};
use super::takes::{Taken, fits, knows};
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

fn takes(op: &Op, ranks: u64, target: &Target) -> Taken {
    knows(op, &["ranks"])?;
    match target.claims.ranks.count {
        own if own == ranks => Ok(()),
        own => Err(format!("it is of {ranks} devices, and {own} run together")),
    }
}

pub(super) fn takes_sum(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    let Op::AllReduce(own) = op else { return Err("it is no sum over devices".into()) };
    takes(op, own.ranks, target)?;
    let sums = |t| [DType::F32, DType::F16, DType::BF16].contains(&t);
    operands.iter().enumerate().try_for_each(|(i, ty)| fits(i, ty, sums))
}

pub(super) fn all_reduce(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::AllReduce(op) = node.op else { return Err(node.mismatch()) };
    let x = node.value(0)?.clone();
    if x.elements() == 0 {
        return Ok(vec![x]);
    }
    // Sums of narrow floats round once.
    let wide = b.convert(&x, x.el.wide());
    let sum = b.sum_of_devices(&wide, op.ranks);
    Ok(vec![b.convert(&sum, x.el)])
}

pub(super) fn takes_all(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    let Op::AllGather(own) = op else { return Err("it puts nothing together".into()) };
    takes(op, own.ranks, target)?;
    operands.iter().enumerate().try_for_each(|(i, ty)| fits(i, ty, |t| !t.is_block()))
}

pub(super) fn all_gather(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::AllGather(op) = node.op else { return Err(node.mismatch()) };
    let x = node.value(0)?.clone();
    if x.elements() == 0 {
        return Ok(vec![b.splat(x.el, &node.result(0)?, 0.0)]);
    }
    Ok(vec![b.all_of_devices(&x, op.ranks)])
}
