//! `iota`: indices along an axis.

use super::cast;
use super::each::Each;
use super::element::{Element, Register};
use super::indices::around;
use super::indices::{Words, dims};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Floats or integers of up to 32 bits.
pub(in crate::kernels) fn takes(op: &Op, _: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["type", "dims", "axis"])?;
    let Op::Iota(op) = op else { return Err("it takes an iota".into()) };
    match Element::of(op.dtype) {
        Some(_) => Ok(()),
        None => Err(format!("its kernel makes no {}", op.dtype)),
    }
}

pub(in crate::kernels) fn iota(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::Iota(op) = &step.op else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let element = Element::of(op.dtype);
    let element = element.ok_or_else(|| unsupported(format!("indices of {}", op.dtype)))?;
    let n = y.ty.shape.elements()?;
    if n == 0 {
        return Ok(None);
    }
    let (_, size, inner) = around(&dims(&y.ty)?, op.axis);
    let mut words = Words::default();
    let (size, inner) = (words.size(size)?, words.size(inner)?);
    let index = format!("(i / {inner} % {size})");
    let value = cast::cast(&index, Register::U32, op.dtype, element.register(), &mut Vec::new());
    Each {
        entry: "iota",
        head: [
            "iota        y[.., i, ..] = i".into(),
            format!("y {}", op.dtype),
            "y's".into(),
            "rounded once to y's type".into(),
        ],
        functions: vec![element.helpers().into()],
        body: format!("return {};", element.bits(&value)),
        result: y,
        n,
        element,
    }
    .launch(words, emit)
}
