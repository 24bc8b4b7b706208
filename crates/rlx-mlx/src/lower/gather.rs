//! Rows of a table, packed or not, and indices of any axis.

use super::takes::{Taken, is_common, is_scalar, knows};
use super::{Call, Value, refused};
use crate::tape::{Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::{Gather, Op};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    knows(op, &["axis"])?;
    let (Op::Gather(op), [table, ids]) = (op, operands) else {
        return Err("it is no gather".into());
    };
    if table.shape.0.get(op.axis).and_then(|d| d.as_static()) == Some(0) {
        return Err("the table has no rows".into());
    }
    is_scalar(1, ids)?;
    match table.dtype {
        DType::Block(_) if target.reads(table.dtype) => Ok(()),
        _ => is_scalar(0, table),
    }
}

pub(super) fn gather(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Gather(op) = c.op else { return Err(refused("no gather".into())) };
    let (axis, ids, dims) = (op.axis, c.x(1)?, c.dims(0)?);
    let ids = indices(c.t, ids, c.kind(1)?, dims[axis]);
    let y = match c.value(0)?.clone() {
        Value::Packed(packed) => {
            let rows = packed.each(dims[1], |reg, _| c.t.take(reg, ids, 0));
            rows.decode(c.t, dims[1])
        }
        Value::Array(table) => {
            let y = c.t.take(table, ids, axis);
            if widens(op, c.types[0]) { c.t.cast(y, Kind::F32) } else { y }
        }
    };
    Ok(vec![y])
}

fn widens(op: &Gather, table: &Type) -> bool {
    op.is_embedding(table) && is_common(table.dtype)
}

/// Indices of an axis of `n` as i32: a negative one counts from the end, and what is outside then reads the nearest.
pub(super) fn indices(t: &mut Tape, ids: Reg, kind: Kind, n: i64) -> Reg {
    let last = t.integer(kind, n - 1);
    if kind == Kind::U32 {
        let near = t.minimum(ids, last);
        return t.cast(near, Kind::I32);
    }
    let (zero, size) = (t.integer(kind, 0), t.integer(kind, n));
    let near = t.minimum(ids, last);
    let (below, from_end) = (t.lt(near, zero), t.add(near, size));
    let at = t.select(below, from_end, near);
    let at = t.maximum(at, zero);
    t.cast(at, Kind::I32)
}
