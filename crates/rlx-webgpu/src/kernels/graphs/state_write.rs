//! `state_write`: new slices of a state.

use crate::kernels::elements::copy::moved;
use crate::kernels::elements::element::{Element, once};
use crate::kernels::elements::indices::around;
use crate::kernels::elements::indices::{Words, dims};
use crate::kernels::emit::{Emit, fill};
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{Dim, Type};

/// Slices of any scalar type that are whole words, or floats that are rounded to the state's type.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis"])?;
    let (Op::StateWrite(op), [state, x, _]) = (op, operands) else {
        return Err("it takes three operands".into());
    };
    let Some((element, _)) = moved(state.dtype) else { return Err(takes::not(0, state)) };
    let casts = Element::of(state.dtype).is_some() && Element::of(x.dtype).is_some();
    if state.dtype != x.dtype && !casts {
        return Err(takes::not(1, x));
    }
    let inner = state.shape.0.get(op.axis + 1..).unwrap_or_default();
    let inner = inner.iter().map(Dim::as_static).try_fold(1u64, |n, d| n.checked_mul(d?));
    if element.per_word() > 1 && !inner.is_some_and(|n| n.is_multiple_of(element.per_word())) {
        return Err(format!("its kernel writes {} in slices of whole words", state.dtype));
    }
    Ok(())
}

pub(super) fn state_write(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::StateWrite(op) = &step.op else { return Err(mismatch(step)) };
    let [state, x, at] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let none = || unsupported(format!("{} into {}", x.ty, state.ty));
    let (element, parts) = moved(state.ty.dtype).ok_or_else(none)?;
    let per = element.per_word();
    // The same bits, or another float's value.
    let (from, to) = if x.ty.dtype == state.ty.dtype {
        (element, None)
    } else {
        (Element::of(x.ty.dtype).ok_or_else(none)?, Element::of(state.ty.dtype))
    };
    let n = x.ty.shape.elements()? * parts / per;
    if n == 0 {
        return Ok(None);
    }
    let (_, rows, inner) = around(&dims(&state.ty)?, op.axis);
    let (_, new, _) = around(&dims(&x.ty)?, op.axis);
    let run = new * inner * parts / per;
    let mut words = Words::default();
    let (x, at) = (emit.read(x)?, emit.read(at)?);
    let y = emit.write(state)?;
    let (x_start, at_start, y_start) =
        (words.bits(x.word()), words.bits(at.word()), words.bits(y.word()));
    let mut functions = vec![from.reader("x", &x, &x_start)];
    let value = match to {
        None => "bits_x(i)".to_owned(),
        Some(to) => {
            functions.push(to.helpers().into());
            to.bits(&from.value("bits_x(i)"))
        }
    };
    functions.push(format!("fn value(i: u32) -> u32 {{ return {value}; }}\n"));
    let (n_at, run_at) = (words.size(n)?, words.size(run)?);
    let wgsl = fill(
        wgsl!("state_write.wgsl"),
        &[
            ("bindings", &emit.bindings()),
            ("functions", &once(functions)),
            ("from", x_name(step)),
            ("to", state.ty.dtype.name()),
            ("n", &n_at),
            ("at", &at.var),
            ("at_start", &at_start),
            ("last", &words.size(rows - new)?),
            ("run", &run_at),
            ("slice", &words.size(inner * parts / per)?),
            ("rows", &words.size(rows)?),
            ("per", &per.to_string()),
            ("bits", &(32 / per).to_string()),
            ("y", &y.var),
            ("y_start", &y_start),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "state_write", words: words.0, groups: n.div_ceil(64) }))
}

fn x_name(step: &Step) -> &'static str {
    step.operands.get(1).map_or("", |x| x.ty.dtype.name())
}
