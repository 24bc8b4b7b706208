//! `pool`: the largest or the mean of each window.

use super::product::describe_type;
use super::sliding::{fits, sliding};
use super::takes::{self, Taken};
use super::tensor_axes::{Sizes, product};
use super::{Context, Kernel, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Op, PoolKind};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Elements of a window at most: one thread goes through all of them.
const MOST_TAPS: u64 = 1 << 20;

/// A tensor of f32, f16 or bf16 over one to three spatial axes.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(
        op,
        &["kind", "kernel", "stride", "pad_low", "pad_high", "dilation", "count_padding"],
    )?;
    let (Op::Pool(op), [x]) = (op, operands) else { return Err("it takes an image".into()) };
    takes::are_floats(operands)?;
    match product(&op.kernel) {
        Ok(0..=MOST_TAPS) => fits(&op.window, x.shape.0.get(2..).unwrap_or_default()),
        _ => Err(format!("its kernel takes windows of up to {MOST_TAPS} elements")),
    }
}

pub(super) fn pool(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Pool(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let (input, output) = (x.ty.shape.static_dims()?, y.ty.shape.static_dims()?);
    let n = product(&output)?;
    if n == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    describe_type(&mut emit, y.ty.dtype)?;
    emit.argument(x)?;
    emit.argument(y)?;
    // A block's threads count past the end.
    super::word(n.saturating_mul(2))?;
    let mut sizes = Sizes::given();
    for (name, n) in [
        ("N", n),
        ("PLACES", product(&output[2..])?),
        ("PLANE", product(&input[2..])?),
        ("TAPS", product(&op.kernel)?),
    ] {
        emit.define_size(name, n, &mut sizes)?;
    }
    sliding(&mut emit, &op.window, &op.kernel, &input[2..], &output[2..], &mut sizes)?;
    emit.sizes(&sizes);
    let (start, next, result) = match op.kind {
        PoolKind::Max => ("MINUS_INFINITY", "(count == 0 || v > all ? v : all)", "all"),
        PoolKind::Average if op.count_padding => ("0.0f", "(all + v)", "(all / float(TAPS))"),
        PoolKind::Average => ("0.0f", "(all + v)", "(all / float(max(count, 1u)))"),
    };
    emit.define("START", start);
    emit.define("NEXT(all, v, count)", next);
    emit.define("RESULT(all, count)", result);
    Ok(vec![emit.kernel("pool", include_str!("pool.cu"), [n.div_ceil(256), 1, 1], 256)?])
}
