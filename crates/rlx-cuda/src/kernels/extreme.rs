//! `argmax` and `argmin`: where the extreme element of an axis stands.

use super::elements::{computed, stored};
use super::numbers::Numbers;
use super::takes::{self, Taken};
use super::walk::{around, dims};
use super::{Context, Kernel, mismatch, unsupported, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Threads of a block.
const THREADS: u64 = 256;

/// Floats and integers.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis", "keep"])?;
    match operands.first() {
        Some(x) if stored(x.dtype).is_some() => Ok(()),
        _ => Err("its kernel takes floats and integers".into()),
    }
}

pub(super) fn extreme(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let (axis, is_least) = match &step.op {
        Op::ArgMax(op) => (op.axis, false),
        Op::ArgMin(op) => (op.axis, true),
        _ => return Err(mismatch(step)),
    };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let (outer, n, inner) = around(&dims(x)?, axis)?;
    let runs = outer * inner;
    if runs == 0 || n == 0 {
        return Ok(Vec::new());
    }
    word(x.ty.shape.elements()?)?;
    // Threads beside each other read elements beside each other, of one run or of several.
    let team = if inner >= 32 || n < 32 { 1 } else { THREADS };
    let none = || unsupported(format!("extremes of {}", x.ty.dtype));
    let (mut emit, mut numbers) = (cx.emit(step), Numbers::default());
    emit.argument(x)?;
    emit.argument(y)?;
    let kind = computed(x.ty.dtype).ok_or_else(none)?;
    emit.define("TYPE", stored(x.ty.dtype).ok_or_else(none)?);
    emit.define("KEY", format_args!("KeyOf<{kind}>::type"));
    emit.define("IS_NAN(x)", if x.ty.dtype.is_float() { "((x) != (x))" } else { "false" });
    emit.define("ORDERED(key)", if is_least { "(~(key))" } else { "(key)" });
    emit.define("TEAM", format_args!("{team}u"));
    emit.define("RUNS", numbers.size(runs)?);
    emit.define("N", numbers.size(n)?);
    let inner = numbers.divisor(inner)?;
    emit.define("INNER", inner.name());
    emit.define("BY_INNER(i)", inner.quotient("i"));
    emit.numbers(&numbers);
    emit.line(include_str!("keys.cuh"));
    emit.elements();
    let blocks = (runs * team).div_ceil(THREADS);
    let text = include_str!("extreme.cu");
    Ok(vec![emit.kernel("extreme", text, [blocks, 1, 1], THREADS as u32)?])
}
