//! Attention over a cache.

use super::control::Control;
use super::takes::{Taken, is_common, is_f32, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::{Attention, Op};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["head_dim", "scale", "window", "softcap", "sinks", "block", "ring"])?;
    let [q, k, v, _, sinks @ ..] = operands else { return Err("it is no attention".into()) };
    is_f32(0, q)?;
    for (i, cache) in [(1, k), (2, v)] {
        if !is_common(cache.dtype) {
            return Err(format!("its kernel takes no {} as operand {i}", cache.dtype));
        }
    }
    sinks.iter().try_for_each(|ty| is_f32(4, ty))
}

/// Which of `n` rows of the cache each of `s` rows sees: `[s, n]`.
fn seen(t: &mut Tape, op: &Attention, ctl: Control, [s, n]: [i64; 2]) -> Reg {
    let far = |n: u64| i64::try_from(n).unwrap_or(1 << 30).min(1 << 30);
    let positions = ctl.positions(t, s);
    let position = t.reshape(positions, &[s, 1]);
    let columns = t.arange(Kind::I32, n);
    let mut column = t.reshape(columns, &[1, n]);
    let mut masks = Vec::new();
    let (past, len) = (ctl.past(t), ctl.len(t));
    let held = t.add(past, len);
    if op.ring {
        // The latest position that the row of the ring has; it is below 0 where there is none.
        let (one, size) = (t.integer(Kind::I32, 1), t.integer(Kind::I32, n));
        let newest = t.sub(held, one);
        let back = t.sub(newest, column);
        let back = t.remainder(back, size);
        column = t.sub(newest, back);
        let zero = t.integer(Kind::I32, 0);
        masks.push(t.ge(column, zero));
    }
    let last = match op.block {
        Some(block) => {
            let (size, one) = (t.integer(Kind::I32, far(block)), t.integer(Kind::I32, 1));
            let within = t.remainder(position, size);
            let (first, most) = (t.sub(position, within), t.sub(size, one));
            masks.push(t.lt(column, held));
            t.add(first, most)
        }
        None => position,
    };
    masks.push(t.le(column, last));
    if let Some(window) = op.window {
        let window = t.integer(Kind::I32, far(window));
        let reach = t.add(column, window);
        masks.push(t.ge(reach, position));
    }
    let mut all = masks[0];
    for mask in &masks[1..] {
        all = t.and(all, *mask);
    }
    t.broadcast(all, &[s, n])
}

pub(super) fn attention(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Attention(op) = c.op else { return Err(refused("no attention".into())) };
    let (q, ctl) = (c.x(0)?, Control(c.x(3)?));
    let (&[s, width], &[kv_heads, capacity, e]) = (c.dims(0)?.as_slice(), c.dims(1)?.as_slice())
    else {
        return Err(refused("attention of no caches".into()));
    };
    if s * width == 0 || capacity == 0 {
        return Ok(vec![q]);
    }
    // A ring's rows are in use from the first to the last.
    let seen_at_most = c.form.positions.filter(|_| !op.ring);
    let n = seen_at_most.map_or(capacity, |most| most.min(capacity));
    let mut rows = |i: usize| -> Result<Reg> {
        let (cache, kind) = (c.x(i)?, c.kind(i)?);
        let rows = match n < capacity {
            true => c.t.slice(cache, &[kv_heads, capacity, e], 1, 0, n),
            false => cache,
        };
        Ok(if kind == Kind::F32 { rows } else { c.t.cast(rows, Kind::F32) })
    };
    let (k, v) = (rows(1)?, rows(2)?);
    let sinks = if op.sinks { Some(c.x(4)?) } else { None };
    let t = &mut *c.t;
    let (heads, mask) = (width / e, seen(t, op, ctl, [s, n]));
    let q = t.reshape(q, &[1, s, heads, e]);
    let q = t.transpose(q, &[0, 2, 1, 3]);
    let k = t.reshape(k, &[1, kv_heads, n, e]);
    let v = t.reshape(v, &[1, kv_heads, n, e]);
    let mask = t.reshape(mask, &[1, 1, s, n]);
    let sizes = [1, heads, kv_heads, s, n, e];
    let scores =
        Scores { scale: op.scale, softcap: op.softcap, mask: Some(mask), bias: None, sinks };
    let y = attend(t, [q, k, v], &scores, sizes, e);
    let y = t.transpose(y, &[0, 2, 1, 3]);
    Ok(vec![t.reshape(y, &[s, width])])
}

/// What happens to scores before their softmax.
pub(super) struct Scores {
    pub scale: f32,
    pub softcap: Option<f32>,
    /// Which are there, as booleans that broadcast to `[batch, heads, rows, positions]`.
    pub mask: Option<Reg>,
    /// What is added to them, as it broadcasts to that.
    pub bias: Option<Reg>,
    /// One more score of each head.
    pub sinks: Option<Reg>,
}

/// `softmax(scores of q and k) v` of `q [B, H, S, E]`, `k [B, K, N, E]` and `v [B, K, N, V]`, in f32; sizes are
/// `[B, H, K, S, N, E]`. MLX has it in one call where nothing but a scale, a mask and sinks change the scores.
pub(super) fn attend(
    t: &mut Tape,
    [q, k, v]: [Reg; 3],
    how: &Scores,
    [b, heads, kv_heads, s, n, e]: [i64; 6],
    width: i64,
) -> Reg {
    if how.softcap.is_none() && how.bias.is_none() {
        let mut inputs = vec![q, k, v];
        inputs.extend(how.mask);
        inputs.extend(how.sinks);
        let flags = [how.mask.is_some(), how.sinks.is_some()].map(i64::from);
        return t.call(Code::Attention, &inputs, &flags, &[how.scale.into()]);
    }
    let group = heads / kv_heads;
    let q = t.reshape(q, &[b, kv_heads, group, s, e]);
    let (k, v) = (t.reshape(k, &[b, kv_heads, 1, n, e]), t.reshape(v, &[b, kv_heads, 1, n, width]));
    let k = t.transpose(k, &[0, 1, 2, 4, 3]);
    let scores = t.matmul(q, k);
    let mut scores = t.reshape(scores, &[b, heads, s, n]);
    let by = t.float(how.scale);
    scores = t.mul(scores, by);
    if let Some(cap) = how.softcap {
        let cap = t.float(cap);
        scores = t.div(scores, cap);
        scores = t.op(Code::Tanh, &[scores]);
        scores = t.mul(scores, cap);
    }
    if let Some(bias) = how.bias {
        scores = t.add(scores, bias);
    }
    if let Some(mask) = how.mask {
        let nothing = t.float(f32::NEG_INFINITY);
        scores = t.select(mask, scores, nothing);
    }
    if let Some(sinks) = how.sinks {
        let column = t.reshape(sinks, &[1, heads, 1, 1]);
        let column = t.broadcast(column, &[b, heads, s, 1]);
        scores = t.concat(&[scores, column], 3);
    }
    let mut weights = t.with(Code::Softmax, &[scores], &[3]);
    if how.sinks.is_some() {
        weights = t.slice(weights, &[b, heads, s, n + 1], 3, 0, n);
    }
    let weights = t.reshape(weights, &[b, kv_heads, group, s, n]);
    let y = t.matmul(weights, v);
    t.reshape(y, &[b, heads, s, width])
}
