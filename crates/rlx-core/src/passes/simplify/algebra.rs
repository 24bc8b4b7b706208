//! Identities of arithmetic, casts and bounds.

use crate::error::Result;
use crate::ir::mir::{Node, ValueId};
use crate::ops::{Binary, Cast, Clamp, Expand, Map, Op, Unary};
use crate::passes::sweep::{Rewrite, Sweep};
use crate::types::{DType, Scalar};
use alloc::vec;

type Rewritten = Result<Option<Rewrite>>;

/// `x` in the result's shape: itself, or repeated.
fn as_result(s: &Sweep<'_>, node: &Node, x: ValueId) -> Rewrite {
    let result = s.ty(node.outputs[0]);
    match s.ty(x) == result {
        true => Rewrite::Value(x),
        false => Rewrite::Node(Expand { dims: result.shape.clone() }.into(), vec![x]),
    }
}

/// The number that every element of a constant is, in any scalar type but complex; its sign bit
/// counts. `None` where elements differ or `v` is no constant.
fn uniform(s: &Sweep<'_>, v: ValueId) -> Option<f64> {
    let Op::Constant(c) = &s.maker(v)?.op else { return None };
    let DType::Scalar(scalar) = c.ty.dtype else { return None };
    let first = c.data.get(..scalar.bytes())?;
    if !c.data.chunks_exact(first.len()).all(|x| x == first) {
        return None;
    }
    fn of<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
    Some(match scalar {
        Scalar::F64 => f64::from_le_bytes(of(first)?),
        Scalar::F32 => f32::from_le_bytes(of(first)?).into(),
        Scalar::F16 => half::f16::from_le_bytes(of(first)?).to_f64(),
        Scalar::Bf16 => half::bf16::from_le_bytes(of(first)?).to_f64(),
        // Beyond 2^53 it rounds, but never to 0 or 1.
        Scalar::I64 => i64::from_le_bytes(of(first)?) as f64,
        Scalar::I32 => i32::from_le_bytes(of(first)?).into(),
        Scalar::I16 => i16::from_le_bytes(of(first)?).into(),
        Scalar::I8 => i8::from_le_bytes(of(first)?).into(),
        Scalar::U32 => u32::from_le_bytes(of(first)?).into(),
        Scalar::U8 | Scalar::Bool => first[0].into(),
        Scalar::C64 => return None,
    })
}

/// `x + -0.0`, `x - 0.0`, `x * 1`, `x / 1`, `x ^ 1`, `max(x, x)`, `min(x, x)` are x, and so are
/// `x + 0` and `x - 0` of integers; `x * 0` of integers is 0.
pub(super) fn zip(s: &mut Sweep<'_>, node: &Node) -> Rewritten {
    let (Op::Zip(op), &[a, b]) = (&node.op, &node.inputs[..]) else { return Ok(None) };
    let float = s.ty(a).dtype.is_float();
    let is = |v: ValueId, n: f64| uniform(s, v).is_some_and(|x| x.to_bits() == n.to_bits());
    let nothing = |v: ValueId| if float { is(v, -0.0) } else { is(v, 0.0) };
    let kept = match op.f {
        Binary::Add if nothing(b) => a,
        Binary::Add if nothing(a) => b,
        Binary::Sub if is(b, 0.0) => a,
        Binary::Mul if is(b, 1.0) => a,
        Binary::Mul if is(a, 1.0) => b,
        Binary::Mul if !float && is(b, 0.0) => b,
        Binary::Mul if !float && is(a, 0.0) => a,
        Binary::Div | Binary::Pow if is(b, 1.0) => a,
        Binary::Max | Binary::Min if a == b => a,
        _ => return Ok(None),
    };
    Ok(Some(as_result(s, node, kept)))
}

/// What a map of a map is: `neg neg` is x; `abs neg` is `abs`; a second `abs`, `relu`, `sign`, and a
/// rounding of what is rounded do nothing.
pub(super) fn map(s: &mut Sweep<'_>, node: &Node) -> Rewritten {
    use Unary::{Abs, Ceil, Floor, Neg, Relu, Round, Sign};
    let (Op::Map(outer), &[x]) = (&node.op, &node.inputs[..]) else { return Ok(None) };
    let Some((Op::Map(inner), &[y])) = s.maker(x).map(|n| (&n.op, &n.inputs[..])) else {
        return Ok(None);
    };
    Ok(Some(match (outer.f, inner.f) {
        (Neg, Neg) => Rewrite::Value(y),
        (Abs, Neg) => Rewrite::Node(Map { f: Abs }.into(), vec![y]),
        (Abs, Abs) | (Relu, Relu) | (Sign, Sign) => Rewrite::Value(x),
        (Round | Floor | Ceil, Round | Floor | Ceil | Sign) => Rewrite::Value(x),
        _ => return Ok(None),
    }))
}

/// True if every value of `from` is one of `to`, so that the cast loses nothing.
fn widens(from: Scalar, to: Scalar) -> bool {
    use Scalar::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U32};
    let to_any = |types: &[Scalar]| types.contains(&to);
    from == to
        || match from {
            Bool => to_any(&[F64, F32, F16, Bf16, I64, I32, I16, I8, U32, U8]),
            U8 => to_any(&[F64, F32, F16, Bf16, I64, I32, I16, U32]),
            I8 => to_any(&[F64, F32, F16, Bf16, I64, I32, I16]),
            I16 => to_any(&[F64, F32, I64, I32]),
            I32 | U32 => to_any(&[F64, I64]),
            F16 | Bf16 => to_any(&[F64, F32]),
            F32 => to == F64,
            F64 | I64 | Scalar::C64 => false,
        }
}

/// A cast to the operand's own type is the operand. A cast of a cast that lost nothing casts the
/// first operand: f16 to f32 to f16 is nothing, f32 to f16 to f32 stays.
pub(super) fn cast(s: &mut Sweep<'_>, node: &Node) -> Rewritten {
    let (Op::Cast(op), &[x]) = (&node.op, &node.inputs[..]) else { return Ok(None) };
    if s.ty(x).dtype == op.to {
        return Ok(Some(Rewrite::Value(x)));
    }
    let Some((Op::Cast(inner), &[first])) = s.maker(x).map(|n| (&n.op, &n.inputs[..])) else {
        return Ok(None);
    };
    let (DType::Scalar(from), DType::Scalar(to)) = (s.ty(first).dtype, inner.to) else {
        return Ok(None);
    };
    // Integers wrap into a narrower integer and floats saturate: on the way through a float an
    // integer meets the second rule.
    let saturates = s.ty(first).dtype.is_int() && inner.to.is_float() && op.to.is_int();
    let last = match op.to {
        DType::Scalar(last) => last,
        DType::Block(_) => return Ok(None),
    };
    let exact = widens(from, to) && (!saturates || widens(from, last));
    Ok(exact.then(|| Rewrite::Node(Cast { to: op.to }.into(), vec![first])))
}

/// A clamp of a clamp is one: its bounds are the inner ones, clamped by the outer.
pub(super) fn clamp(s: &mut Sweep<'_>, node: &Node) -> Rewritten {
    let (Op::Clamp(outer), &[x]) = (&node.op, &node.inputs[..]) else { return Ok(None) };
    let Some((Op::Clamp(inner), &[first])) = s.maker(x).map(|n| (&n.op, &n.inputs[..])) else {
        return Ok(None);
    };
    // Not for NaN or crossed bounds, nor where only the sign of a zero would say which bound won.
    let zeros = [inner.min, inner.max, outer.min, outer.max].map(|b| b == 0.0);
    let orderly = inner.min <= inner.max && outer.min <= outer.max;
    if !orderly || zeros.iter().filter(|&&zero| zero).count() > 1 && inner != outer {
        return Ok(None);
    }
    let within = |x: f32| x.max(outer.min).min(outer.max);
    let merged = Clamp { min: within(inner.min), max: within(inner.max) };
    Ok(Some(Rewrite::Node(merged.into(), vec![first])))
}

/// A condition that is known, or does not matter, leaves one side.
pub(super) fn select(s: &mut Sweep<'_>, node: &Node) -> Rewritten {
    let (Op::Select(_), &[condition, a, b]) = (&node.op, &node.inputs[..]) else {
        return Ok(None);
    };
    let kept = match uniform(s, condition) {
        Some(0.0) => b,
        Some(_) => a,
        None if a == b => a,
        None => return Ok(None),
    };
    Ok(Some(as_result(s, node, kept)))
}

/// Elementwise operators repeat smaller operands themselves: they read what was expanded.
pub(super) fn operands_repeat_by_themselves(s: &mut Sweep<'_>, node: &Node) -> Rewritten {
    if !matches!(node.op, Op::Zip(_) | Op::Compare(_) | Op::Select(_)) {
        return Ok(None);
    }
    // One operand at a time: of two expanded ones, one may have to say the size.
    for (i, &v) in node.inputs.iter().enumerate() {
        let Some(maker) = s.maker(v) else { continue };
        if !matches!(maker.op, Op::Expand(_)) {
            continue;
        }
        let mut inputs = node.inputs.clone();
        inputs[i] = maker.inputs[0];
        let rewrite = Rewrite::Node(node.op.clone(), inputs);
        if s.fits(node, &rewrite) {
            return Ok(Some(rewrite));
        }
    }
    Ok(None)
}
