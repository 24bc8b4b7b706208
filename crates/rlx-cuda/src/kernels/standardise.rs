//! `layer_norm` and `group_norm`: runs that get a mean of 0 and a variance of 1.

use super::elements::stored;
use super::takes::{self, Taken};
use super::tensor_axes::product;
use super::{Context, Kernel, matrix, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// Elements of a run that a warp has in its registers, and a block of the most threads in its own.
const OF_WARP: u64 = 32 * 32;
const OF_BLOCK: u64 = 1024 * 16;

/// Tensors of f32, f16 or bf16; scales and biases of one type.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["eps", "bias", "groups"])?;
    takes::are_floats(operands)?;
    match operands {
        [_, scale, bias] if scale.dtype != bias.dtype => Err(format!(
            "its kernel takes no scales of {} with biases of {}",
            scale.dtype, bias.dtype
        )),
        _ => Ok(()),
    }
}

pub(super) fn layer_norm(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::LayerNorm(op) = &step.op else { return Err(mismatch(step)) };
    let (runs, n) = matrix(&step.operands[0])?;
    standardise(step, cx, "layer_norm", [runs, n], op.eps, "c")
}

pub(super) fn group_norm(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::GroupNorm(op) = &step.op else { return Err(mismatch(step)) };
    let dims = step.operands[0].ty.shape.static_dims()?;
    let [batch, channels, places @ ..] = dims.as_slice() else { return Err(mismatch(step)) };
    let (own, places) = (channels / op.groups.max(1), product(places)?);
    let channel = format!("run % {}u * {own}u + (c) / {places}u", op.groups);
    let runs = product(&[*batch, op.groups])?;
    standardise(step, cx, "group_norm", [runs, product(&[own, places])?], op.eps, &channel)
}

/// The kernel for runs of `n` elements. `channel`: which scale element `c` of `run` has. A thread reads four elements
/// at a time where these are whole fours of the run.
fn standardise(
    step: &Step,
    cx: &Context<'_>,
    entry: &'static str,
    [runs, n]: [u64; 2],
    eps: f32,
    channel: &str,
) -> Result<Vec<Kernel>> {
    let [x, scale, bias @ ..] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let y = &step.results[0];
    if runs * n == 0 {
        return Ok(Vec::new());
    }
    let named = |dtype: DType| stored(dtype).ok_or_else(|| unsupported(format!("{dtype}")));
    let mut emit = cx.emit(step);
    emit.elements();
    emit.define("T", named(x.ty.dtype)?);
    emit.define("WEIGHT", named(scale.ty.dtype)?);
    let mut aligned = |slice: &Slice| {
        emit.argument(slice)?;
        Ok::<bool, rlx_core::Error>(emit.place(slice)?.offset.is_multiple_of(16))
    };
    let fours = (aligned(x)? & aligned(y)?) && n.is_multiple_of(4);
    emit.argument(scale)?;
    if let Some(bias) = bias.first() {
        emit.argument(bias)?;
        emit.define("BIAS", "");
    }
    let width = if fours { 4 } else { 1 };
    // Kernels add to the indices of a run.
    super::word(n.saturating_mul(2))?;
    let lanes = if n <= OF_WARP { 32 } else { (n / 16).next_power_of_two().clamp(128, 1024) };
    let each = n.div_ceil(lanes * width);
    emit.size("N", n)?;
    emit.size("RUNS", runs)?;
    emit.number("EPS", eps);
    emit.size("WIDTH", width)?;
    emit.define("IS_WARP", u8::from(n <= OF_WARP));
    emit.define("KEPT", if n <= OF_BLOCK { each } else { 0 });
    emit.define("CHANNEL(run, c)", channel);
    let threads = if n <= OF_WARP { 128 } else { lanes };
    emit.size("THREADS", threads)?;
    let blocks = if n <= OF_WARP { runs.div_ceil(threads / 32) } else { runs };
    let text = include_str!("standardise.cu").replace("standardise", entry);
    Ok(vec![emit.kernel(entry, &text, [blocks, 1, 1], threads as u32)?])
}
