//! `pad`: elements around a tensor.

use super::axes;
use crate::kernels::elements::copy::moved;
use crate::kernels::elements::element::Element;
use crate::kernels::elements::indices::{Words, dims};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Op, PadMode};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// A tensor of any scalar type; the constant of one of 64 bits is 0.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["low", "high", "mode", "value"])?;
    let (Op::Pad(op), [x]) = (op, operands) else { return Err("it takes one operand".into()) };
    if moved(x.dtype).is_none() {
        return Err(takes::not(0, x));
    }
    if constant(op.mode, x.dtype).is_none() {
        return Err(format!("its kernel has no constant of {}", x.dtype));
    }
    if x.shape.rank() > axes::MOST_AXES {
        return Err(format!("its kernel has no room for {} axes", x.shape.rank()));
    }
    Ok(())
}

/// The bits of what is put around, as an expression; `None` for a type that has none here.
fn constant(mode: PadMode, dtype: DType) -> Option<String> {
    let value = match mode {
        PadMode::Constant(value) if value.to_bits() != 0 => value,
        _ => return Some("0u".into()),
    };
    let element = Element::of(dtype)?;
    let bits = format!("bitcast<f32>({:#x}u)", value.to_bits());
    let mut texts = Vec::new();
    let finite = value.is_finite();
    let value = crate::kernels::elements::cast::cast(
        &bits,
        crate::kernels::elements::element::Register::F32,
        dtype,
        element.register(),
        &mut texts,
    );
    // What is made by a function of its own, or is no literal of WGSL, is left to the parts.
    (texts.is_empty() && (finite || dtype == DType::F32)).then(|| match dtype {
        DType::F32 => format!(
            "{:#x}u",
            match mode {
                PadMode::Constant(value) => value.to_bits(),
                _ => 0,
            }
        ),
        _ => element.bits(&value),
    })
}

pub(super) fn pad(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::Pad(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let sizes = dims(&x.ty)?;
    let index = |axis: usize, c: &str, words: &mut Words| {
        let (low, high, n) = (op.low[axis], op.high[axis], sizes[axis]);
        if low == 0 && high == 0 {
            return Ok(None);
        }
        let (low, n) = (words.size(low)?, words.size(n)?);
        let p = format!("p{axis}");
        Ok(Some(match op.mode {
            // An index before the axis is a large number.
            PadMode::Constant(_) => {
                (format!("let {p} = {c} - {low};\n    outside = outside || {p} >= {n};\n    "), p)
            }
            PadMode::Replicate => {
                (String::new(), format!("min(max({c}, {low}) - {low}, {n} - 1u)"))
            }
            PadMode::Circular => (String::new(), format!("({c} + {n} - {low}) % {n}")),
            PadMode::Reflect => (
                format!("let {p} = max({c}, {low}) - min({c}, {low});\n    "),
                format!("select({p}, 2u * ({n} - 1u) - {p}, {c} > {low} && {p} >= {n})"),
            ),
        }))
    };
    let bits = constant(op.mode, x.ty.dtype).ok_or_else(|| mismatch(step))?;
    let around = match op.mode {
        PadMode::Constant(_) => {
            ("var outside = false;".into(), format!("if outside {{ return {bits}; }}"))
        }
        _ => Default::default(),
    };
    let formula = format!("y[i] = x[i - low], {} outside of x", op.mode.name());
    axes::launch("pad", &formula, (x, y), around, Words::default(), index, emit)
}
