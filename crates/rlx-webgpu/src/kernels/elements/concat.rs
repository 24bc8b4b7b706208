//! `concat`: tensors one after another.

use super::copy::{halves, moved};
use super::each::Each;
use super::indices::around;
use super::indices::{Words, dims};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Operands that a kernel binds beside its result: each may lie in a buffer of its own, of which every device
/// has eight. More are a `concat` of `concat`s.
const MOST: usize = 7;

/// Tensors of any scalar type.
pub(in crate::kernels) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis"])?;
    if operands.len() > MOST {
        return Err(format!("its kernel takes {MOST} operands"));
    }
    match operands.first() {
        Some(x) if moved(x.dtype).is_none() => Err(takes::not(0, x)),
        _ => Ok(()),
    }
}

pub(in crate::kernels) fn concat(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::Concat(op) = &step.op else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let (element, parts) = halves(&y.ty)?;
    let n = y.ty.shape.elements()? * parts;
    if n == 0 {
        return Ok(None);
    }
    let (_, rows, inner) = around(&dims(&y.ty)?, op.axis);
    let mut words = Words::default();
    let (inner, rows) = (words.size(inner * parts)?, words.size(rows)?);
    let mut functions = Vec::new();
    let mut body = format!(
        "let c = i % {inner};\n    let row = i / {inner} % {rows};\n    \
         let outer = i / {inner} / {rows};\n    "
    );
    let mut first = 0;
    for (k, x) in step.operands.iter().enumerate() {
        let (_, own, _) = around(&dims(&x.ty)?, op.axis);
        if own == 0 {
            continue;
        }
        let place = emit.read(x)?;
        let start = words.bits(place.word());
        functions.push(element.reader(&format!("x{k}"), &place, &start));
        let (before, end, size) = (words.size(first)?, words.size(first + own)?, words.size(own)?);
        body += &format!(
            "if row < {end} {{ return bits_x{k}((outer * {size} + row - {before}) * {inner} + c); }}\n    "
        );
        first += own;
    }
    body += "return 0u;";
    Each {
        entry: "concat",
        head: [
            "concat      y[.., i, ..] = x0[.., i, ..], then x1[.., i - n0, ..] and so on".into(),
            format!("all {}", y.ty.dtype),
            "y's twice".into(),
            "exact".into(),
        ],
        functions,
        body,
        result: y,
        n,
        element,
    }
    .launch(words, emit)
}
