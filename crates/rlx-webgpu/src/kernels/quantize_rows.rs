//! `quantize_rows`: f32 rows to blocks of integers, of one byte in ggml's layout or of two parts.

use super::emit::{Emit, fill};
use super::takes::{self, Taken};
use super::{Context, Launch, matrix, mismatch, unsupported, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, Type};

/// Rows of f32, of any rank.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["to"])?;
    takes::floats_and_caches(operands)?;
    takes::rows(operands)
}

pub(super) fn quantize_rows(
    step: &Step,
    cx: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::QuantizeRows(op) = &step.op else { return Err(mismatch(step)) };
    let blocks = step.results[0].bytes / op.format.bytes() as u64;
    if blocks == 0 {
        return Ok(None);
    }
    let x = emit.read(&step.operands[0])?;
    let y = emit.write(&step.results[0])?;
    let (rows, k) = matrix(&step.operands[0])?;
    // Rows of experts are none of tokens.
    let rows = if step.operands[0].ty.shape.rank() == 2 { rows } else { 0 };
    let per_row = k / op.format.elements() as u64;
    let words = vec![word(blocks)?, x.word(), y.word(), word(per_row)?];
    let (text, entry, groups) = match op.format {
        BlockFormat::Q8_0 => (wgsl!("quantize_q8_0.wgsl"), "quantize_q8_0", blocks.div_ceil(16)),
        BlockFormat::Q15_0 => (wgsl!("quantize_q15_0.wgsl"), "quantize_q15_0", blocks.div_ceil(16)),
        other => {
            return Err(unsupported(format!("the WebGPU device makes no {} blocks", other.name())));
        }
    };
    let (rows_len, skip) = cx.skip_rows(rows, "first / step.per_row", emit);
    let wgsl = fill(
        text,
        &[
            ("bindings", &emit.bindings()),
            ("rows_len", rows_len),
            ("skip", &skip),
            ("x", &x.var),
            ("y", &y.var),
        ],
    );
    Ok(Some(Launch { wgsl, entry, words, groups }))
}
