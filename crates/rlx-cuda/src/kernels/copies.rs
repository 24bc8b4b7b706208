//! `slice` and `concat`: elements that keep their order along every axis.

use super::takes::{self, Taken};
use super::{Context, Kernel, mismatch};
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};
use rlx_core::{Error, Result};

/// A tensor or a state of any scalar type.
pub(super) fn takes_slice(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis", "start", "len", "step"])?;
    operands.iter().try_for_each(|ty| scalars(ty))
}

/// Tensors of a scalar type.
pub(super) fn takes_concat(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis"])?;
    operands.iter().try_for_each(|ty| scalars(ty))
}

fn scalars(ty: &Type) -> Taken {
    match ty.dtype {
        DType::Block(_) => Err(format!("its kernel takes no {}", ty.dtype)),
        _ => Ok(()),
    }
}

pub(super) fn slice(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Slice(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let far = || Error::internal("a slice that starts nowhere");
    let mut strides = row_major(x)?;
    let first = op.start.as_static().and_then(|n| i64::try_from(n).ok()).ok_or_else(far)?;
    let start = first.checked_mul(strides[op.axis]).ok_or_else(far)?;
    strides[op.axis] = strides[op.axis].checked_mul(op.step).ok_or_else(far)?;
    let dims = y.ty.shape.static_dims()?;
    copy(step, cx, (x, y), &dims, (start, &strides), (0, &row_major(y)?))
}

pub(super) fn concat(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Concat(op) = &step.op else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let strides = row_major(y)?;
    let (mut start, mut launches) = (0, Vec::new());
    for x in &step.operands {
        let dims = x.ty.shape.static_dims()?;
        launches.extend(copy(step, cx, (x, y), &dims, (0, &row_major(x)?), (start, &strides))?);
        start += dims[op.axis] as i64 * strides[op.axis];
    }
    Ok(launches)
}

/// Elements from one index of an axis to the next.
fn row_major(slice: &Slice) -> Result<Vec<i64>> {
    let dims = slice.ty.shape.static_dims()?;
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i] as i64;
    }
    Ok(strides)
}

/// Elements of the box `dims`, from places to places: where the first stands, and strides.
fn copy(
    step: &Step,
    cx: &Context<'_>,
    (x, y): (&Slice, &Slice),
    dims: &[u64],
    from: (i64, &[i64]),
    to: (i64, &[i64]),
) -> Result<Vec<Kernel>> {
    let n: u64 = dims.iter().product();
    if n == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    emit.argument(x)?;
    emit.argument(y)?;
    emit.size("N", n)?;
    emit.define("BYTES", x.ty.dtype.block_bytes());
    emit.define("FROM", place(dims, from));
    emit.define("TO", place(dims, to));
    Ok(vec![emit.kernel("copy", include_str!("copy.cu"), [n.div_ceil(128), 1, 1], 128)?])
}

/// Where element `i` of a box stands.
fn place(dims: &[u64], (start, strides): (i64, &[i64])) -> String {
    let mut text = format!("({start}ll");
    let mut inner = 1;
    for (dim, stride) in dims.iter().zip(strides).rev() {
        if *dim > 1 {
            text += &format!(" + (long long)(i / {inner}u % {dim}u) * {stride}ll");
        }
        inner *= dim;
    }
    text + ")"
}
