//! Products with the weights of a row's experts.

use super::matmul::is_weight;
use super::takes::{Taken, is_f32, knows};
use super::{Call, Value, functions, refused};
use crate::tape::{Code, Kind, Reg};
use rlx_core::Result;
use rlx_core::ops::{GroupedEpilogue, Op};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    knows(op, &["segments", "bias", "epilogue", "glu", "limit"])?;
    let Op::GroupedMatMul(op) = op else { return Err("it is no grouped_matmul".into()) };
    let parts = op.parts();
    for (i, ty) in operands.iter().enumerate() {
        if (parts.banks..parts.banks + op.segments).contains(&i) {
            is_weight(i, ty, target)?;
        } else if i != parts.ids {
            is_f32(i, ty)?;
        }
    }
    Ok(())
}

pub(super) fn grouped_matmul(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::GroupedMatMul(op) = c.op else { return Err(refused("no grouped_matmul".into())) };
    let (parts, dims) = (op.parts(), c.dims(0)?);
    let (&[m, k], Some(&width)) = (c.dims(parts.ids)?.as_slice(), dims.last()) else {
        return Err(refused("experts of no rows".into()));
    };
    let (x, ids) = (c.x(0)?, c.x(parts.ids)?);
    let last = c.dims(parts.banks)?[0] - 1;
    let last = c.t.integer(Kind::U32, last);
    let ids = c.t.minimum(ids, last);
    // A row for each expert: [M, k or 1, 1, K].
    let each = if dims.len() == 3 { k } else { 1 };
    let x = c.t.reshape(x, &[m, each, 1, width]);
    let x = c.t.broadcast(x, &[m, k, 1, width]);
    let mut results = Vec::with_capacity(op.segments);
    for i in 0..op.segments {
        let at = parts.banks + i;
        let n = c.dims(at)?[1];
        let y = match c.value(at)?.clone() {
            Value::Packed(bank) => bank.chosen_product(c.t, x, width, ids),
            Value::Array(_) => {
                let bank = c.cast(at, Kind::F32)?;
                let bank = c.t.transpose(bank, &[0, 2, 1]);
                c.t.op(Code::GatherMatMul, &[x, bank, ids])
            }
        };
        let mut y = c.t.reshape(y, &[m, k, n]);
        if let Some(first) = parts.biases {
            let bias = c.x(first + i)?;
            let bias = c.t.take(bias, ids, 0);
            y = c.t.add(y, bias);
        }
        results.push(y);
    }
    match op.epilogue {
        GroupedEpilogue::None => {}
        GroupedEpilogue::Glu(f) => {
            let up = results.pop().ok_or_else(|| refused("no second bank".into()))?;
            let gate = functions::unary(c.t, f, results[0]);
            results[0] = c.t.mul(gate, up);
        }
        GroupedEpilogue::LimitedGlu(f, limit) => {
            let up = results.pop().ok_or_else(|| refused("no second bank".into()))?;
            let t = &mut *c.t;
            let (most, least, one) = (t.float(limit), t.float(-limit), t.float(1.0));
            let up = functions::smaller(t, [up, most], Kind::F32);
            let up = functions::larger(t, [up, least], Kind::F32);
            let up = t.add(up, one);
            let gate = functions::smaller(t, [results[0], most], Kind::F32);
            let gate = functions::unary(t, f, gate);
            results[0] = t.mul(gate, up);
        }
        GroupedEpilogue::Sum | GroupedEpilogue::SumAdd => {
            let at = parts.shares.ok_or_else(|| refused("no shares".into()))?;
            let shares = c.x(at)?;
            let shares = c.t.reshape(shares, &[m, k, 1]);
            let weighted = c.t.mul(results[0], shares);
            results[0] = c.t.reduce(Code::Sum, weighted, &[1], false);
            if let Some(at) = parts.residual {
                let residual = c.x(at)?;
                results[0] = c.t.add(results[0], residual);
            }
        }
    }
    Ok(results)
}
