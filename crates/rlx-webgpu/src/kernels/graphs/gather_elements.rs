//! `gather_elements`: one element an index.

use super::ids;
use crate::kernels::elements::copy::{halves, moved};
use crate::kernels::elements::each::Each;
use crate::kernels::elements::indices::around;
use crate::kernels::elements::indices::{Words, dims};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// A tensor of any scalar type.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis"])?;
    let [x, ids] = operands else { return Err("it takes two operands".into()) };
    ids::takes(1, ids)?;
    moved(x.dtype).map(|_| ()).ok_or_else(|| takes::not(0, x))
}

pub(super) fn gather_elements(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::GatherElements(op) = &step.op else { return Err(mismatch(step)) };
    let (x, ids, y) = (&step.operands[0], &step.operands[1], &step.results[0]);
    let (element, parts) = halves(&x.ty)?;
    let n = y.ty.shape.elements()? * parts;
    if n == 0 {
        return Ok(None);
    }
    let (_, rows, inner) = around(&dims(&x.ty)?, op.axis);
    let (_, count, _) = around(&dims(&ids.ty)?, op.axis);
    let mut words = Words::default();
    let places = ids::places(ids, rows, true, &mut words, emit)?;
    let (inner, count) = (words.size(inner)?, words.size(count)?);
    let rows = words.size(rows)?;
    let place = emit.read(x)?;
    let start = words.bits(place.word());
    Each {
        entry: "gather_elements",
        head: [
            "gather_elements   y[.., j, .., c] = x[.., ids[.., j, .., c], .., c]".into(),
            format!("x, y {}    ids {}, of y's shape", x.ty.dtype, ids.ty.dtype),
            "y's twice and ids'".into(),
            "exact".into(),
        ],
        functions: vec![places, element.reader("x", &place, &start)],
        body: format!(
            "let e = i / {parts}u;\n    let row = e / {inner} / {count} * {rows} + place(e);\n    \
             return bits_x((row * {inner} + e % {inner}) * {parts}u + i % {parts}u);"
        ),
        result: y,
        n,
        element,
    }
    .launch(words, emit)
}
