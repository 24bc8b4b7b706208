//! Attention without a cache.

use super::attention::{Scores, attend};
use super::elementwise::narrowed;
use super::takes::{Taken, is_common, is_float, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::{HeadLayout, Mask, Op, Sdpa};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    let known = [
        "heads",
        "kv_heads",
        "head_dim",
        "v_head_dim",
        "mask",
        "window",
        "scale",
        "softcap",
        "layout",
    ];
    knows(op, &known)?;
    for (i, ty) in operands.iter().enumerate() {
        if i < 3 {
            is_float(i, ty)?;
        } else if !is_common(ty.dtype) && ty.dtype != DType::BOOL {
            return Err(format!("its kernel takes no {} as operand {i}", ty.dtype));
        }
    }
    Ok(())
}

/// `[B, H, S, E]` of an operand.
fn by_heads(
    c: &mut Call<'_>,
    op: &Sdpa,
    i: usize,
    [heads, e]: [i64; 2],
) -> Result<(Reg, i64, i64)> {
    let (x, dims) = (c.cast(i, Kind::F32)?, c.dims(i)?);
    let (b, s) = match (op.layout, dims.as_slice()) {
        (HeadLayout::Bhsd, &[b, _, s, _]) => return Ok((x, b, s)),
        (HeadLayout::Bshd, &[b, s, ..]) => (b, s),
        _ => return Err(refused("attention of no heads".into())),
    };
    let x = c.t.reshape(x, &[b, s, heads, e]);
    Ok((c.t.transpose(x, &[0, 2, 1, 3]), b, s))
}

/// Which keys a query's position sees: `[1, 1, S_q, S_k]`.
fn positions(t: &mut Tape, mask: Mask, [s_q, s_k]: [i64; 2]) -> Option<Reg> {
    let window = match mask {
        Mask::Causal => None,
        Mask::Window(w) => Some(i64::try_from(w).unwrap_or(1 << 30).min(1 << 30)),
        _ => return None,
    };
    let (rows, columns) = (t.arange(Kind::I32, s_q), t.arange(Kind::I32, s_k));
    let (first, zero) = (t.integer(Kind::I32, s_k - s_q), t.integer(Kind::I32, 0));
    let p = t.add(rows, first);
    let p = t.maximum(p, zero);
    let p = t.reshape(p, &[1, 1, s_q, 1]);
    let j = t.reshape(columns, &[1, 1, 1, s_k]);
    let mut seen = t.le(j, p);
    if let Some(window) = window {
        let window = t.integer(Kind::I32, window);
        let reach = t.add(j, window);
        let near = t.ge(reach, p);
        seen = t.and(seen, near);
    }
    Some(seen)
}

pub(super) fn sdpa(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Sdpa(op) = c.op else { return Err(refused("no sdpa".into())) };
    let kind = c.kind(0)?;
    let [heads, kv_heads, e, width] =
        [op.heads, op.kv_heads, op.head_dim, op.v_head_dim].map(|n| n as i64);
    let out = c.out_dims(0)?;
    let (q, b, s_q) = by_heads(c, op, 0, [heads, e])?;
    let (k, _, s_k) = by_heads(c, op, 1, [kv_heads, e])?;
    let (v, ..) = by_heads(c, op, 2, [kv_heads, width])?;
    if out.contains(&0) || s_k == 0 || e == 0 {
        let zero = c.t.number(kind, 0.0);
        return Ok(vec![c.t.broadcast(zero, &out)]);
    }
    let mut mask = positions(c.t, op.mask, [s_q, s_k]);
    let mut bias = None;
    match op.mask {
        Mask::Custom => {
            let valid = c.x(3)?;
            let valid = if c.kind(3)? == Kind::Bool {
                valid
            } else {
                let (wide, half) = (c.cast(3, Kind::F32)?, c.t.float(0.5));
                c.t.ge(wide, half)
            };
            mask = Some(c.t.reshape(valid, &[b, 1, 1, s_k]));
        }
        Mask::Bias => bias = Some(c.cast(3, Kind::F32)?),
        Mask::Grid => {
            let (rows, columns) = (c.cast(3, Kind::F32)?, c.cast(4, Kind::F32)?);
            let (of_rows, of_columns) = (c.dims(3)?, c.dims(4)?);
            let (r, n) = (of_rows[3], of_columns[3]);
            let t = &mut *c.t;
            let rows = t.reshape(rows, &[of_rows[0], of_rows[1], of_rows[2], r, 1]);
            let columns = t.reshape(columns, &[of_columns[0], of_columns[1], of_columns[2], 1, n]);
            let sum = t.add(rows, columns);
            let sum = t.broadcast(sum, &[b, heads, s_q, r, n]);
            bias = Some(t.reshape(sum, &[b, heads, s_q, s_k]));
        }
        Mask::None | Mask::Causal | Mask::Window(_) => {}
    }
    let t = &mut *c.t;
    // A query that sees no key has zeros, and not the mean that a softmax of nothing else makes.
    let sees = match (mask, bias) {
        (Some(mask), _) => Some(t.reduce(Code::Any, mask, &[3], true)),
        (None, Some(bias)) => {
            let least = t.float(f32::NEG_INFINITY);
            let some = t.ne(bias, least);
            Some(t.reduce(Code::Any, some, &[3], true))
        }
        (None, None) => None,
    };
    let sizes = [b, heads, kv_heads, s_q, s_k, e];
    let scale = op.score_scale() as f32;
    let scores = Scores { scale, softcap: op.softcap, mask, bias, sinks: None };
    let mut y = attend(t, [q, k, v], &scores, sizes, width);
    if let Some(sees) = sees {
        let zero = t.float(0.0);
        y = t.select(sees, y, zero);
    }
    if op.layout == HeadLayout::Bshd {
        y = t.transpose(y, &[0, 2, 1, 3]);
    }
    let y = t.reshape(y, &out);
    Ok(vec![narrowed(t, y, kind)])
}
