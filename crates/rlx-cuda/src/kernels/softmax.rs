//! `softmax` along any axis.

use super::elements::stored;
use super::takes::{self, Taken};
use super::tensor_axes::product;
use super::{Context, Kernel, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Threads of a block.
const THREADS: u64 = 256;
/// Elements of a run that a thread keeps in registers.
const KEPT: u64 = 16;

/// A tensor of f32, f16 or bf16.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis"])?;
    takes::are_floats(operands)
}

pub(super) fn softmax(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Softmax(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let dims = x.ty.shape.static_dims()?;
    let (n, inner) = (dims[op.axis], product(&dims[op.axis + 1..])?);
    let runs = product(&dims)?.checked_div(n).unwrap_or(0);
    if runs == 0 {
        return Ok(Vec::new());
    }
    // Neighbouring threads read neighbouring elements: of one run where these lie side by side, else of several runs.
    let most =
        if inner == 1 { THREADS } else { (THREADS / inner.min(32).next_power_of_two()).max(8) };
    let parts = n.div_ceil(4).next_power_of_two().min(most);
    let of_a_block = THREADS / parts;
    let mut emit = cx.emit(step);
    emit.elements();
    emit.argument(x)?;
    emit.argument(y)?;
    let stored = stored(x.ty.dtype).ok_or_else(|| unsupported(format!("{}", x.ty.dtype)))?;
    emit.define("T", stored);
    // Kernels add to the indices of a run.
    super::word(n.saturating_mul(2))?;
    emit.size("N", n)?;
    emit.size("INNER", inner)?;
    emit.size("RUNS", runs)?;
    emit.size("PARTS", parts)?;
    emit.size("THREADS", THREADS)?;
    let each = n.div_ceil(parts);
    emit.define("KEPT", if each <= KEPT { each } else { 0 });
    let (part, own) = match inner {
        1 => (format!("t % {parts}u"), format!("t / {parts}u")),
        _ => (format!("t / {of_a_block}u"), format!("t % {of_a_block}u")),
    };
    emit.define("PART(t)", part);
    emit.define("OWN(t)", own);
    let grid = [runs.div_ceil(of_a_block), 1, 1];
    Ok(vec![emit.kernel("softmax", include_str!("softmax.cu"), grid, THREADS as u32)?])
}
