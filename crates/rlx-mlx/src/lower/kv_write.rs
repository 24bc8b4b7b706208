//! New rows of a cache.

use super::control::Control;
use super::takes::{Taken, is_common, is_float, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg};
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["ring"])?;
    let [cache, x, ..] = operands else { return Err("it is no kv_write".into()) };
    if !is_common(cache.dtype) {
        return Err(format!("its kernel takes no {} as operand 0", cache.dtype));
    }
    is_float(1, x)
}

pub(super) fn kv_write(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::KvWrite(op) = c.op else { return Err(refused("no kv_write".into())) };
    let (cache, ctl, to) = (c.x(0)?, Control(c.x(2)?), c.kind(0)?);
    let (&[heads, capacity, e], &[s, _]) = (c.dims(0)?.as_slice(), c.dims(1)?.as_slice()) else {
        return Err(refused("kv_write of no cache".into()));
    };
    if s == 0 || heads * capacity * e == 0 {
        return Ok(vec![cache]);
    }
    let x = c.cast(1, to)?;
    let t = &mut *c.t;
    let rows = t.reshape(x, &[s, heads, e]);
    let rows = t.transpose(rows, &[1, 0, 2]);
    let positions = ctl.positions(t, s);
    let at = if op.ring {
        let n = t.integer(Kind::I32, capacity);
        t.remainder(positions, n)
    } else {
        let last = t.integer(Kind::I32, capacity - 1);
        t.minimum(positions, last)
    };
    let writes = ctl.writes(t, s);
    if s == 1 {
        let old = t.take(cache, at, 1);
        let writes = t.reshape(writes, &[1, 1, 1]);
        let new = t.select(writes, rows, old);
        return Ok(vec![t.with(Code::SliceUpdateAt, &[cache, new, at], &[1])]);
    }
    // A row that must not be written does once more what the first row does: so no two rows differ about one place.
    let (numbers, zero) = (t.arange(Kind::I32, s), t.integer(Kind::I32, 0));
    let from = t.select(writes, numbers, zero);
    let at = t.take(at, from, 0);
    let (new, old) = (t.take(rows, from, 1), t.take(cache, at, 1));
    let first = t.element(writes, s, 0);
    let new = t.select(first, new, old);
    // MLX scatters [rows, heads, 1, e] of updates.
    let new = t.transpose(new, &[1, 0, 2]);
    let new = t.reshape(new, &[s, heads, 1, e]);
    Ok(vec![t.with(Code::Scatter, &[cache, at, new], &[1])])
}
