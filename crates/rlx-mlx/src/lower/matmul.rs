//! Products of rows with weights, packed or not.

use super::norms::root_mean_square;
use super::takes::{Taken, is_common, is_f32, knows};
use super::{Call, Value, functions, refused};
use crate::tape::{Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::{Epilogue, MatMul, Op};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    knows(op, &["segments", "bias", "norm_eps", "half", "epilogue", "map", "glu"])?;
    let Op::MatMul(op) = op else { return Err("it is no matmul".into()) };
    let parts = op.parts();
    for (i, ty) in operands.iter().enumerate() {
        if (parts.weights..parts.weights + op.segments).contains(&i) {
            is_weight(i, ty, target)?;
        } else {
            is_f32(i, ty)?;
        }
    }
    Ok(())
}

/// Refuses a weight that MLX does not multiply.
pub(super) fn is_weight(i: usize, ty: &Type, target: &Target) -> Taken {
    let reads = match ty.dtype {
        DType::Block(_) => target.reads(ty.dtype),
        dtype => is_common(dtype),
    };
    if reads { Ok(()) } else { Err(format!("its kernel takes no {} as operand {i}", ty.dtype)) }
}

/// `x W^T` of rows of f32.
pub(super) fn product(t: &mut Tape, x: Reg, w: &Value, kind: Option<Kind>, k: i64) -> Reg {
    match w {
        Value::Packed(packed) => packed.product(t, x, k),
        Value::Array(w) => {
            let w = if kind == Some(Kind::F32) { *w } else { t.cast(*w, Kind::F32) };
            let w = t.transpose(w, &[1, 0]);
            t.matmul(x, w)
        }
    }
}

/// The nearest number of 11 bits, of two that are as near the even one.
fn to_11_bits(t: &mut Tape, x: Reg) -> Reg {
    let bits = t.bits(x, Kind::U32);
    let [thirteen, one, less, low] =
        [13, 1, 0xfff, !0x1fffu32].map(|n| t.integer(Kind::U32, n.into()));
    let odd = t.shr(bits, thirteen);
    let odd = t.bit_and(odd, one);
    let near = t.add(bits, less);
    let near = t.add(near, odd);
    let near = t.bit_and(near, low);
    let (near, finite) = (t.bits(near, Kind::F32), t.is_finite(x));
    t.select(finite, near, x)
}

pub(super) fn matmul(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::MatMul(op) = c.op else { return Err(refused("no matmul".into())) };
    let op: &MatMul = op;
    let (parts, dims) = (op.parts(), c.dims(0)?);
    let k = *dims.last().ok_or_else(|| refused("a scalar is no rows".into()))?;
    let mut x = c.x(0)?;
    if let (Some(eps), Some(at)) = (op.norm, parts.norm) {
        let w = c.x(at)?;
        x = root_mean_square(c.t, x, w, eps);
    }
    if op.half {
        x = to_11_bits(c.t, x);
    }
    let mut results = Vec::with_capacity(op.segments);
    for segment in 0..op.segments {
        let (at, w) = (parts.weights + segment, c.value(parts.weights + segment)?.clone());
        let kind = Kind::of(c.types[at].dtype);
        let mut y = product(c.t, x, &w, kind, k);
        if let Some(first) = parts.biases {
            let bias = c.x(first + segment)?;
            y = c.t.add(y, bias);
        }
        results.push(y);
    }
    match op.epilogue {
        Epilogue::None => {}
        Epilogue::Map(f) => {
            for y in &mut results {
                *y = functions::unary(c.t, f, *y);
            }
        }
        Epilogue::Add => {
            let at = parts.residual.ok_or_else(|| refused("no residual".into()))?;
            let residual = c.x(at)?;
            results[0] = c.t.add(results[0], residual);
        }
        Epilogue::Glu(f) => {
            let up = results.pop().ok_or_else(|| refused("no second weight".into()))?;
            let gate = functions::unary(c.t, f, results[0]);
            results[0] = c.t.mul(gate, up);
        }
    }
    Ok(results)
}
