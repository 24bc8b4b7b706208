//! `gated_delta_net`: the rule of a gated delta net, over any sequences, with or without a state.

use super::elements::stored;
use super::takes::{self, Taken};
use super::tensor_axes::product;
use super::{Context, Kernel, mismatch, unsupported, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// The most rows of a head's matrix: a thread has a quarter of a column in registers.
const MOST: usize = 512;

/// Tensors of f32, f16 or bf16; a state of f32 or none, with a control block or without.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["state_size", "carry", "tiled"])?;
    let Op::GatedDeltaNet(op) = op else { return Err("it takes a gated delta net".into()) };
    takes::are_floats(operands.get(..5).unwrap_or_default())?;
    match op.state_size <= MOST {
        true => Ok(()),
        false => Err(format!("its kernel has matrices of at most {MOST} rows")),
    }
}

pub(super) fn gated_delta_net(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::GatedDeltaNet(op) = &step.op else { return Err(mismatch(step)) };
    let [q, k, v, g, beta, rest @ ..] = step.operands.as_slice() else {
        return Err(mismatch(step));
    };
    let (key, value) = (q.ty.shape.static_dims()?, v.ty.shape.static_dims()?);
    let ([.., key_heads, n], [batch @ .., rows, heads, width]) = (key.as_slice(), value.as_slice())
    else {
        return Err(mismatch(step));
    };
    let batch = product(batch)?;
    let columns = product(&[batch, *heads, *width])?;
    if columns == 0 || (*rows == 0 && rest.is_empty()) {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    emit.elements();
    let dtype = v.ty.dtype;
    let stored = stored(dtype).ok_or_else(|| unsupported(format!("{dtype}")))?;
    emit.define("T", stored);
    for operand in [q, k, v, g, beta, &step.results[0]].into_iter().chain(rest) {
        emit.argument(operand)?;
    }
    let parameters = [", float* state", ", const u32* __restrict__ ctl"];
    emit.define("STATE_PARAMETERS", parameters[..rest.len().min(2)].concat());
    emit.define("HAS_STATE", u8::from(!rest.is_empty()));
    emit.define("HAS_CONTROL", u8::from(rest.len() > 1));
    emit.define("HAS_WIDE_GATE", u8::from(g.ty.shape.rank() > beta.ty.shape.rank()));
    // Kernels add to rows.
    word(rows.saturating_mul(2))?;
    emit.size("ROWS", *rows)?;
    emit.size("HEADS", *heads)?;
    emit.size("KEY_HEADS", *key_heads)?;
    emit.size("N", *n)?;
    emit.size("V", *width)?;
    let key_head = if op.tiled { "(head) % KEY_HEADS" } else { "(head) / (HEADS / KEY_HEADS)" };
    emit.define("KEY_HEAD(head)", key_head);
    let blocks = product(&[width.div_ceil(32), *heads, batch])?;
    let text = include_str!("gated_delta_net.cu");
    Ok(vec![emit.kernel("gated_delta_net", text, [blocks, 1, 1], 128)?])
}
