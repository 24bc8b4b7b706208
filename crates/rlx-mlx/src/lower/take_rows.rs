//! The last real rows.

use super::control::Control;
use super::takes::{Taken, is_float, knows};
use super::{Call, refused};
use crate::tape::{Kind, Reg};
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["rows"])?;
    operands.first().map_or_else(|| Err("it has no rows".into()), |ty| is_float(0, ty))
}

pub(super) fn take_rows(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let (x, ctl) = (c.x(0)?, Control(c.x(1)?));
    let (&[have, _], &[rows, _]) = (c.dims(0)?.as_slice(), c.out_dims(0)?.as_slice()) else {
        return Err(refused("take_rows of no matrix".into()));
    };
    let t = &mut *c.t;
    let (len, have) = (ctl.len(t), t.integer(Kind::I32, have));
    let len = t.minimum(len, have);
    let (numbers, back) = (t.arange(Kind::I32, rows), t.integer(Kind::I32, rows));
    let at = t.add(len, numbers);
    let at = t.sub(at, back);
    let zero = t.integer(Kind::I32, 0);
    let at = t.maximum(at, zero);
    Ok(vec![t.take(x, at, 0)])
}
