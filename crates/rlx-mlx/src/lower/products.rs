//! Products of two tensors that are computed.

use super::elementwise::narrowed;
use super::takes::{Taken, are_floats, knows};
use super::{Call, refused};
use crate::tape::{Kind, Reg};
use rlx_core::Result;
use rlx_core::ops::{DotGeneral, Op};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["transpose_b", "lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"])?;
    are_floats(operands)
}

pub(super) fn batch_matmul(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::BatchMatMul(op) = c.op else { return Err(refused("no batch_matmul".into())) };
    let (kind, dims, out) = (c.kind(0)?, c.dims(1)?, c.out_dims(0)?);
    let (a, mut b) = (c.cast(0, Kind::F32)?, c.cast(1, Kind::F32)?);
    let t = &mut *c.t;
    if out.contains(&0) || dims.contains(&0) {
        let zero = t.number(kind, 0.0);
        return Ok(vec![t.broadcast(zero, &out)]);
    }
    if op.transpose_b {
        let rank = dims.len() as i64;
        let perm: Vec<i64> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
        b = t.transpose(b, &perm);
    }
    let y = t.matmul(a, b);
    Ok(vec![narrowed(t, y, kind)])
}

pub(super) fn dot_general(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::DotGeneral(op) = c.op else { return Err(refused("no dot_general".into())) };
    let (kind, a_dims, b_dims, out) = (c.kind(0)?, c.dims(0)?, c.dims(1)?, c.out_dims(0)?);
    let (a, b) = (c.cast(0, Kind::F32)?, c.cast(1, Kind::F32)?);
    let t = &mut *c.t;
    if [&a_dims, &b_dims].iter().any(|dims| dims.contains(&0)) {
        let zero = t.number(kind, 0.0);
        return Ok(vec![t.broadcast(zero, &out)]);
    }
    let a_free = DotGeneral::free(&op.lhs_batch, &op.lhs_contract, a_dims.len());
    let b_free = DotGeneral::free(&op.rhs_batch, &op.rhs_contract, b_dims.len());
    // [batch, free, contracted] times [batch, contracted, free].
    let mut side = |x: Reg, dims: &[i64], groups: [&[usize]; 3]| {
        let perm: Vec<i64> = groups.concat().iter().map(|&axis| axis as i64).collect();
        let sizes = groups.map(|axes| axes.iter().map(|&axis| dims[axis]).product());
        let x = if perm.is_empty() { x } else { t.transpose(x, &perm) };
        t.reshape(x, &sizes)
    };
    let a = side(a, &a_dims, [&op.lhs_batch, &a_free, &op.lhs_contract]);
    let b = side(b, &b_dims, [&op.rhs_batch, &op.rhs_contract, &b_free]);
    let y = t.matmul(a, b);
    let y = t.reshape(y, &out);
    Ok(vec![narrowed(t, y, kind)])
}
