//! The gated delta rule, row by row, and a layer of it.

use super::control::Control;
use super::elementwise::narrowed;
use super::functions::unary;
use super::takes::{Taken, is_float, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::{GatedDeltaNet, Op, Unary};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// Rows that a tape has one behind the other at most.
const ROWS: u64 = 1 << 11;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["key_heads", "state_size", "eps", "tiled", "carry"])?;
    let floats = if matches!(op, Op::DeltaNet(_)) { 1 } else { 3 };
    let rows = operands.get(floats - 1).map(|ty| (ty.shape.rank(), ty.shape.0.clone()));
    let axis = if floats == 1 { 2 } else { 3 };
    let rows = rows.and_then(|(rank, dims)| dims.get(rank.checked_sub(axis)?)?.as_static());
    if rows.is_none_or(|n| n > ROWS) {
        return Err(format!("its kernel takes {ROWS} rows at most"));
    }
    for (i, ty) in operands.iter().enumerate() {
        let is_state = ty.kind == rlx_core::types::Kind::State;
        let known = is_state && [DType::F32, DType::U32].contains(&ty.dtype);
        if !known {
            is_float(i, ty)?;
        }
    }
    Ok(())
}

/// What a recurrence goes over, in f32: q and k `[B, S, K, N]`, v `[B, S, H, V]`, g `[B, S, H, N or 1]`, beta
/// `[B, S, H]`.
struct Rule {
    xs: [Reg; 5],
    /// B, S, K, H, N, V, and the last size of g.
    sizes: [i64; 7],
    /// The matrices before the first row, `[B, H, N, V]`.
    state: Option<Reg>,
    ctl: Option<Control>,
}

impl Rule {
    /// `y [B, S, H, V]`, and the matrices behind the last real row.
    fn write(&self, t: &mut Tape, op: &GatedDeltaNet) -> [Reg; 2] {
        let [b, s, keys, heads, n, v, gates] = self.sizes;
        let group = heads / keys.max(1);
        let [q, k, value, g, beta] = self.xs;
        // A query and a key for each value head, as a column.
        let every = |t: &mut Tape, x: Reg| {
            let (one, all) = match op.tiled {
                true => ([b, s, 1, keys, n], [b, s, group, keys, n]),
                false => ([b, s, keys, 1, n], [b, s, keys, group, n]),
            };
            let x = t.reshape(x, &one);
            let x = t.broadcast(x, &all);
            t.reshape(x, &[b, s, heads, n, 1])
        };
        let (q, k) = (every(t, q), every(t, k));
        let root = t.float(1.0 / (n as f32).sqrt());
        let q = t.mul(q, root);
        let value = t.reshape(value, &[b, s, heads, 1, v]);
        let g = t.reshape(g, &[b, s, heads, gates, 1]);
        let decay = t.exp(g);
        let beta = t.reshape(beta, &[b, s, heads, 1, 1]);
        let zero = t.float(0.0);
        let before = match self.state {
            Some(state) => t.reshape(state, &[b, heads, n, v]),
            None => t.broadcast(zero, &[b, heads, n, v]),
        };
        let real = self.ctl.map(|ctl| {
            let (rows, len) = (t.arange(Kind::I32, s), ctl.len(t));
            t.lt(rows, len)
        });
        let (mut m, mut ys) = (before, Vec::with_capacity(s as usize));
        for i in 0..s {
            let row = |t: &mut Tape, x: Reg, [rows, columns]: [i64; 2]| {
                let one = t.slice(x, &[b, s, heads, rows, columns], 1, i, i + 1);
                t.reshape(one, &[b, heads, rows, columns])
            };
            let [q, k] = [q, k].map(|x| row(t, x, [n, 1]));
            let (value, decay) = (row(t, value, [1, v]), row(t, decay, [gates, 1]));
            let beta = row(t, beta, [1, 1]);
            let faded = t.mul(m, decay);
            let kept = t.mul(faded, k);
            let kept = t.reduce(Code::Sum, kept, &[2], true);
            let d = t.sub(value, kept);
            let d = t.mul(d, beta);
            let added = t.mul(k, d);
            let next = t.add(faded, added);
            let y = t.mul(next, q);
            let y = t.reduce(Code::Sum, y, &[2], true);
            m = match real {
                Some(real) => {
                    let is = t.element(real, s, i);
                    ys.push(t.select(is, y, zero));
                    t.select(is, next, m)
                }
                None => {
                    ys.push(y);
                    next
                }
            };
        }
        if let Some(ctl) = self.ctl {
            let runs = ctl.runs(t);
            m = t.select(runs, m, before);
        }
        let y = match ys.len() {
            0 => t.broadcast(zero, &[b, heads, 0, v]),
            _ => t.concat(&ys, 2),
        };
        [t.transpose(y, &[0, 2, 1, 3]), m]
    }
}

pub(super) fn gated_delta_net(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::GatedDeltaNet(op) = c.op else { return Err(refused("no gated_delta_net".into())) };
    let (q_dims, v_dims, kind) = (c.dims(0)?, c.dims(2)?, c.kind(2)?);
    let gates = if c.dims(3)?.len() > c.dims(4)?.len() { op.state_size as i64 } else { 1 };
    let ([.., keys, n], [batch @ .., s, heads, v]) = (q_dims.as_slice(), v_dims.as_slice()) else {
        return Err(refused("a delta net of no heads".into()));
    };
    let batch: i64 = batch.iter().product();
    let mut xs = [c.x(0)?; 5];
    for (i, x) in xs.iter_mut().enumerate() {
        *x = c.cast(i, Kind::F32)?;
    }
    let state = if op.carry { Some(c.x(5)?) } else { None };
    let ctl = if c.count() > 6 { Some(Control(c.x(6)?)) } else { None };
    let rule = Rule { xs, sizes: [batch, *s, *keys, *heads, *n, *v, gates], state, ctl };
    let [y, m] = rule.write(c.t, op);
    let y = c.t.reshape(y, &v_dims);
    let mut results = vec![narrowed(c.t, y, kind)];
    if op.carry {
        let dims = c.dims(5)?;
        results.push(c.t.reshape(m, &dims));
    }
    Ok(results)
}

pub(super) fn delta_net(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::DeltaNet(op) = c.op else { return Err(refused("no delta_net".into())) };
    let (dims, state_dims, kind) = (c.dims(0)?, c.dims(5)?, c.kind(0)?);
    let (&[s, _], &[heads, n, v]) = (dims.as_slice(), state_dims.as_slice()) else {
        return Err(refused("a delta net of no heads".into()));
    };
    let keys = op.key_heads as i64;
    let [qkv, a, b, decay, dt] = {
        let mut all = [c.x(0)?; 5];
        for (i, x) in all.iter_mut().enumerate() {
            *x = c.cast(i, Kind::F32)?;
        }
        all
    };
    let (state, ctl) = (c.x(5)?, Control(c.x(6)?));
    let t = &mut *c.t;
    let part = |t: &mut Tape, from: i64, shape: [i64; 4]| {
        let width = shape[2] * shape[3];
        let x = t.slice(qkv, &dims, 1, from, from + width);
        t.reshape(x, &shape)
    };
    // x / sqrt(sum x^2 + eps)
    let eps = t.float(op.eps);
    let unit = |t: &mut Tape, x: Reg| {
        let square = t.mul(x, x);
        let square = t.reduce(Code::Sum, square, &[3], true);
        let square = t.add(square, eps);
        let by = t.op(Code::Rsqrt, &[square]);
        t.mul(x, by)
    };
    let (q, k) = (part(t, 0, [1, s, keys, n]), part(t, keys * n, [1, s, keys, n]));
    let (q, k) = (unit(t, q), unit(t, k));
    let value = part(t, 2 * keys * n, [1, s, heads, v]);
    let g = t.add(a, dt);
    let g = unary(t, Unary::Softplus, g);
    let g = t.mul(g, decay);
    let beta = t.op(Code::Sigmoid, &[b]);
    let rule = Rule {
        xs: [q, k, value, g, beta],
        sizes: [1, s, keys, heads, n, v, 1],
        state: Some(state),
        ctl: Some(ctl),
    };
    let [y, m] = rule.write(t, &op.rule());
    let y = t.reshape(y, &[s, heads, v]);
    let y = narrowed(t, y, kind);
    Ok(vec![y, t.reshape(m, &state_dims)])
}
