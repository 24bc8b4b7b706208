//! Rotary positions from the two short tables.

use super::control::Control;
use super::takes::{Taken, is_f32, knows};
use super::{Call, refused};
use crate::tape::{Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::{Op, RopeStyle};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["style", "head_dim"])?;
    operands.iter().take(2).enumerate().try_for_each(|(i, ty)| is_f32(i, ty))
}

/// cos and sin `[S, half]` of the position of each row, by the products of the table's two parts.
fn angles(t: &mut Tape, table: Reg, ctl: Control, [rows, half, s]: [i64; 3]) -> [Reg; 2] {
    // With L low rows there are more than L / 4 and at most L high rows, so the sum tells L.
    let low = (rows as u64).div_ceil(2).next_power_of_two() as i64;
    let most = low.saturating_mul(rows - low).saturating_sub(1).clamp(0, i32::MAX.into());
    let position = ctl.positions(t, s);
    let most = t.integer(Kind::I32, most);
    let position = t.minimum(position, most);
    let step = t.integer(Kind::I32, low);
    let high = t.floor_div(position, step);
    let high = t.add(high, step);
    let near = t.remainder(position, step);
    let mut turn = |row: Reg| {
        let taken = t.take(table, row, 0);
        [0, 1].map(|part| {
            let one = t.slice(taken, &[s, half, 2], 2, part, part + 1);
            t.reshape(one, &[s, half])
        })
    };
    let ([cos_a, sin_a], [cos_b, sin_b]) = (turn(high), turn(near));
    let (p, q) = (t.mul(cos_a, cos_b), t.mul(sin_a, sin_b));
    let cos = t.sub(p, q);
    let (p, q) = (t.mul(sin_a, cos_b), t.mul(cos_a, sin_b));
    [cos, t.add(p, q)]
}

pub(super) fn rope(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Rope(op) = c.op else { return Err(refused("no rope".into())) };
    let (x, table, ctl) = (c.x(0)?, c.x(1)?, Control(c.x(2)?));
    let (dims, sizes, e) = (c.dims(0)?, c.dims(1)?, op.head_dim as i64);
    let (&[s, width], &[rows, half, _]) = (dims.as_slice(), sizes.as_slice()) else {
        return Err(refused("rope of no matrix".into()));
    };
    if rows < 2 || half == 0 || width == 0 {
        return Ok(vec![x]);
    }
    let [cos, sin] = angles(c.t, table, ctl, [rows, half, s]);
    let t = &mut *c.t;
    let heads = width / e;
    let all = t.reshape(x, &[s, heads, e]);
    let turning = t.slice(all, &[s, heads, e], 2, 0, 2 * half);
    // The two of each pair, and cos and sin to match.
    let (split, axis, angle) = match op.style {
        RopeStyle::Half => ([s, heads, 2, half], 2, [s, 1, 1, half]),
        RopeStyle::Adjacent => ([s, heads, half, 2], 3, [s, 1, half, 1]),
    };
    let pairs = t.reshape(turning, &split);
    let (a, b) = (t.slice(pairs, &split, axis, 0, 1), t.slice(pairs, &split, axis, 1, 2));
    let (cos, sin) = (t.reshape(cos, &angle), t.reshape(sin, &angle));
    let (p, q) = (t.mul(a, cos), t.mul(b, sin));
    let first = t.sub(p, q);
    let (p, q) = (t.mul(a, sin), t.mul(b, cos));
    let second = t.add(p, q);
    let turned = t.concat(&[first, second], axis);
    let mut y = t.reshape(turned, &[s, heads, 2 * half]);
    if 2 * half < e {
        let rest = t.slice(all, &[s, heads, e], 2, 2 * half, e);
        y = t.concat(&[y, rest], 2);
    }
    Ok(vec![t.reshape(y, &dims)])
}
