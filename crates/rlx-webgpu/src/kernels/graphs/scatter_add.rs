//! `scatter_add`: updates added at indices. Each element of the result looks through all indices, so that sums
//! have one order and no two invocations meet.

use super::ids;
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
use rlx_core::types::Type;

/// Floats or integers of up to 32 bits.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis"])?;
    let [target, ids, _] = operands else { return Err("it takes three operands".into()) };
    ids::takes(1, ids)?;
    Element::of(target.dtype).map(|_| ()).ok_or_else(|| takes::not(0, target))
}

pub(super) fn scatter_add(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::ScatterAdd(op) = &step.op else { return Err(mismatch(step)) };
    let [target, ids, updates] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let element = Element::of(y.ty.dtype);
    let element = element.ok_or_else(|| unsupported(format!("sums of {}", y.ty.dtype)))?;
    let n = y.ty.shape.elements()?;
    if n == 0 {
        return Ok(None);
    }
    let (_, rows, inner) = around(&dims(&y.ty)?, op.axis);
    let mut words = Words::default();
    let places = ids::places(ids, rows, false, &mut words, emit)?;
    let (rows, inner) = (words.size(rows)?, words.size(inner)?);
    let count = words.size(ids.ty.shape.elements()?)?;
    let (x, u) = (emit.read(target)?, emit.read(updates)?);
    let (x_start, u_start) = (words.bits(x.word()), words.bits(u.word()));
    Each {
        entry: "scatter_add",
        head: [
            "scatter_add   y[.., r, .., c] = x[.., r, .., c] + sum of u[.., j, .., c] where ids[j] = r".into(),
            format!("x, u, y {}    ids {}[N]", y.ty.dtype, ids.ty.dtype),
            "x's, u's and y's, and N indices an element of y".into(),
            "f32 or integers of 32 bits, added in the order of ids; rounded once".into(),
        ],
        functions: vec![
            places,
            element.loader("x", &x, &x_start),
            element.loader("u", &u, &u_start),
            element.helpers().into(),
        ],
        body: format!(
            "let c = i % {inner};\n    let row = i / {inner} % {rows};\n    \
             let outer = i / {inner} / {rows};\n    var sum = load_x(i);\n    \
             for (var j = 0u; j < {count}; j++) {{\n        \
             if place(j) == row {{ sum += load_u((outer * {count} + j) * {inner} + c); }}\n    }}\n    \
             return {};",
            element.bits("sum")
        ),
        result: y,
        n,
        element,
    }
    .launch(words, emit)
}
