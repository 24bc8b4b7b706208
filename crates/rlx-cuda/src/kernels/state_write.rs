//! `state_write`: new slices of a state.

use super::elements::stored;
use super::numbers::Numbers;
use super::takes::{self, Taken};
use super::units::{sizes, unit};
use super::walk::around;
use super::{Context, Kernel, mismatch, unsupported, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Slices of the state's type, or scalar floats that are rounded to it.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis"])?;
    let [state, x, _] = operands else { return Err("it takes three operands".into()) };
    if state.dtype == x.dtype {
        return Ok(());
    }
    for (i, ty) in [state, x].into_iter().enumerate() {
        stored(ty.dtype)
            .ok_or_else(|| format!("its kernel takes no {} as operand {i}", ty.dtype))?;
    }
    Ok(())
}

pub(super) fn state_write(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::StateWrite(op) = &step.op else { return Err(mismatch(step)) };
    let [state, x, at] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let ((state_bytes, have), (_, put)) = (sizes(state)?, sizes(x)?);
    let n: u64 = put.iter().product();
    if n == 0 {
        return Ok(Vec::new());
    }
    let ((_, rows, inner), (_, new, _)) = (around(&have, op.axis)?, around(&put, op.axis)?);
    let (mut emit, mut numbers) = (cx.emit(step), Numbers::default());
    for slice in [x, at, state] {
        emit.argument(slice)?;
    }
    let mut by = 1;
    if state.ty.dtype == x.ty.dtype {
        let starts = [inner * state_bytes, emit.arguments[0].offset, emit.arguments[2].offset];
        let fits = |wide: &u64| *wide > state_bytes && starts.iter().all(|at| at % wide == 0);
        let wide = [16, 8, 4, 2].into_iter().find(fits).unwrap_or(state_bytes);
        by = wide / state_bytes;
        emit.define("FROM_TYPE", unit(wide));
        emit.define("TYPE", unit(wide));
        emit.define("MADE(x)", "(x)");
    } else {
        let none = || unsupported(format!("{} into {}", x.ty, state.ty));
        emit.define("FROM_TYPE", stored(x.ty.dtype).ok_or_else(none)?);
        let ty = stored(state.ty.dtype).ok_or_else(none)?;
        emit.define("TYPE", ty);
        emit.define("MADE(x)", format_args!("cast_to<{ty}>(value_of(x))"));
    }
    word(have.iter().product::<u64>() / by)?;
    emit.define("COUNT", numbers.size(n / by)?);
    let run = numbers.divisor(new * inner / by)?;
    emit.define("RUN", run.name());
    emit.define("BY_RUN(i)", run.quotient("i"));
    emit.define("ROWS", numbers.size(rows)?);
    emit.define("INNER", numbers.size(inner / by)?);
    emit.define("LAST", numbers.size(rows - new)?);
    emit.numbers(&numbers);
    emit.line(include_str!("casts.cuh"));
    emit.elements();
    let text = include_str!("state_write.cu");
    Ok(vec![emit.kernel("state_write", text, [(n / by).div_ceil(256), 1, 1], 256)?])
}
