//! Products of tensors that are no weights.

use super::Node;
use super::builder::{Axes, Builder, V};
use super::elementwise::repeat;
use super::takes::{Taken, are_floats, knows};
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["transpose_b", "lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"])?;
    are_floats(operands)
}

pub(super) fn batch_matmul(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::BatchMatMul(op) = node.op else { return Err(node.mismatch()) };
    let (x, y) = (node.value(0)?.clone(), node.value(1)?.clone());
    let result = node.result(0)?;
    let batch = result.len() - 2;
    let wide = [&x, &y].map(|v| {
        let v = b.convert(v, x.el.wide());
        let mut dims = result[..batch].to_vec();
        dims.extend(&v.dims[v.dims.len() - 2..]);
        repeat(b, &v, &dims)
    });
    let all: Vec<usize> = (0..batch).collect();
    let second = if op.transpose_b { batch + 1 } else { batch };
    let axes = Axes { batch: [all.clone(), all], contract: [vec![batch + 1], vec![second]] };
    let z = b.dot(&wide[0], &wide[1], &axes);
    Ok(vec![b.convert(&z, x.el)])
}

pub(super) fn dot_general(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::DotGeneral(op) = node.op else { return Err(node.mismatch()) };
    let (x, y) = (node.value(0)?.clone(), node.value(1)?.clone());
    let (p, q) = (b.convert(&x, x.el.wide()), b.convert(&y, x.el.wide()));
    let axes = Axes {
        batch: [op.lhs_batch.clone(), op.rhs_batch.clone()],
        contract: [op.lhs_contract.clone(), op.rhs_contract.clone()],
    };
    let z = b.dot(&p, &q, &axes);
    Ok(vec![b.convert(&z, x.el)])
}
