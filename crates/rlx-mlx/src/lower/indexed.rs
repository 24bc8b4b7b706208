//! Elements by index, and slices of states.

use super::elementwise::narrowed;
use super::gather::indices;
use super::takes::{Taken, are_scalars, is_scalar, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg};
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["axis"])?;
    if let (Op::GatherElements(op), Some(x)) = (op, operands.first())
        && x.shape.0.get(op.axis).and_then(|d| d.as_static()) == Some(0)
    {
        return Err("the axis has no elements".into());
    }
    are_scalars(operands)
}

pub(super) fn takes_write(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["axis"])?;
    operands.iter().enumerate().try_for_each(|(i, ty)| is_scalar(i, ty))
}

pub(super) fn gather_elements(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::GatherElements(op) = c.op else { return Err(refused("no gather_elements".into())) };
    let (x, ids, kind, n) = (c.x(0)?, c.x(1)?, c.kind(1)?, c.dims(0)?[op.axis]);
    let ids = indices(c.t, ids, kind, n);
    Ok(vec![c.t.take_along(x, ids, op.axis)])
}

pub(super) fn scatter_add(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::ScatterAdd(op) = c.op else { return Err(refused("no scatter_add".into())) };
    let (kind, dims, sizes) = (c.kind(0)?, c.dims(0)?, c.dims(2)?);
    let axis = op.axis;
    let (n, count) = (dims[axis], sizes[axis]);
    if sizes.contains(&0) || dims.contains(&0) {
        return Ok(vec![c.x(0)?]);
    }
    let wide = if kind.is_float() { Kind::F32 } else { kind };
    let (target, ids, updates) = (c.cast(0, wide)?, c.x(1)?, c.cast(2, wide)?);
    let of_ids = c.kind(1)?;
    let t = &mut *c.t;
    // What is outside of the axis adds 0 somewhere.
    let (size, zero) = (t.integer(of_ids, n), t.integer(of_ids, 0));
    let mut inside = t.lt(ids, size);
    if of_ids != Kind::U32 {
        let least = t.integer(of_ids, -n);
        let above = t.ge(ids, least);
        inside = t.and(inside, above);
    }
    let ids = t.select(inside, ids, zero);
    let ids = indices(t, ids, of_ids, n);
    let mut own = vec![1; sizes.len()];
    own[axis] = count;
    let inside = t.reshape(inside, &own);
    let nothing = t.number(wide, 0.0);
    let updates = t.select(inside, updates, nothing);
    // MLX adds updates [count, .., 1 in place of the axis, ..].
    let rank = dims.len() as i64;
    let perm: Vec<i64> =
        std::iter::once(axis as i64).chain((0..rank).filter(|&i| i != axis as i64)).collect();
    let updates = t.transpose(updates, &perm);
    let mut shape = dims.clone();
    shape[axis] = 1;
    shape.insert(0, count);
    let updates = t.reshape(updates, &shape);
    let y = t.with(Code::ScatterAdd, &[target, ids, updates], &[axis as i64]);
    Ok(vec![if kind.is_float() { narrowed(t, y, kind) } else { y }])
}

pub(super) fn state_write(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::StateWrite(op) = c.op else { return Err(refused("no state_write".into())) };
    let (state, at, kind) = (c.x(0)?, c.x(2)?, c.kind(0)?);
    let (have, put) = (c.dims(0)?, c.dims(1)?);
    if put.contains(&0) || have.contains(&0) {
        return Ok(vec![state]);
    }
    let x = c.cast(1, kind)?;
    let most = c.t.integer(Kind::U32, have[op.axis] - put[op.axis]);
    let at = c.t.reshape(at, &[1]);
    let at = c.t.minimum(at, most);
    let at = c.t.cast(at, Kind::I32);
    Ok(vec![c.t.with(Code::SliceUpdateAt, &[state, x, at], &[op.axis as i64])])
}
