//! `gather` of any axis and rank: indices u32, i32 or i64, tables of any scalar type.

use super::ids;
use crate::kernels::elements::copy::moved;
use crate::kernels::elements::each::Each;
use crate::kernels::elements::element::Element;
use crate::kernels::elements::indices::around;
use crate::kernels::elements::indices::{Words, dims};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// A table of any scalar type; one that an embedding decodes becomes f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis"])?;
    let [table, ids] = operands else { return Err("it takes two operands".into()) };
    ids::takes(1, ids)?;
    moved(table.dtype).map(|_| ()).ok_or_else(|| takes::not(0, table))
}

pub(super) fn gather(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::Gather(op) = &step.op else { return Err(mismatch(step)) };
    let (table, ids, y) = (&step.operands[0], &step.operands[1], &step.results[0]);
    let none = || unsupported(format!("the movement of {}", table.ty));
    let (mut element, parts) = moved(table.ty.dtype).ok_or_else(none)?;
    let n = y.ty.shape.elements()? * parts;
    if n == 0 {
        return Ok(None);
    }
    let (_, rows, inner) = around(&dims(&table.ty)?, op.axis);
    let mut words = Words::default();
    let places = ids::places(ids, rows, true, &mut words, emit)?;
    let (inner, count) = (words.size(inner * parts)?, words.size(ids.ty.shape.elements()?)?);
    let rows = words.size(rows)?;
    let place = emit.read(table)?;
    let start = words.bits(place.word());
    let mut read = "bits_x(at)".to_owned();
    if op.is_embedding(&table.ty) {
        element = Element::of(table.ty.dtype).ok_or_else(none)?;
        read = format!("bitcast<u32>({})", element.value(&read));
    }
    let reader = element.reader("x", &place, &start);
    if y.ty.dtype == DType::F32 {
        element = Element::of(DType::F32).ok_or_else(none)?;
    }
    Each {
        entry: "gather",
        head: [
            "gather      y[.., j, .., c] = x[.., ids[j], .., c], ids outside the axis at its nearest end".into(),
            format!("x {}, ids {}, y {}", table.ty.dtype, ids.ty.dtype, y.ty.dtype),
            "y's twice and, an element each, ids".into(),
            "exact".into(),
        ],
        functions: vec![places, reader],
        body: format!(
            "let rest = i / {inner};\n    \
             let row = rest / {count} * {rows} + place(rest % {count});\n    \
             let at = row * {inner} + i % {inner};\n    return {read};"
        ),
        result: y,
        n,
        element,
    }
    .launch(words, emit)
}
