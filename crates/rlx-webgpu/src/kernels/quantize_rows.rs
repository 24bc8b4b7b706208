//! `quantize_rows`: f32 rows to int8 blocks in ggml's layout.

use super::emit::{Emit, fill};
use super::{Launch, unsupported, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::QuantizeRows;
use rlx_core::types::BlockFormat;

pub(super) fn quantize_rows(
    op: &QuantizeRows,
    step: &Step,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let blocks = step.results[0].bytes / op.format.bytes() as u64;
    if blocks == 0 {
        return Ok(None);
    }
    let x = emit.read(&step.operands[0])?;
    let y = emit.write(&step.results[0])?;
    let words = vec![word(blocks)?, x.word(), y.word()];
    let (text, entry, groups) = match op.format {
        BlockFormat::Q8_0 => {
            (include_str!("quantize_q8_0.wgsl"), "quantize_q8_0", blocks.div_ceil(128))
        }
        BlockFormat::Q8K => (include_str!("quantize_q8_k.wgsl"), "quantize_q8_k", blocks),
        other => {
            return Err(unsupported(format!("the WebGPU device makes no {} blocks", other.name())));
        }
    };
    let wgsl = fill(text, &[("bindings", &emit.bindings()), ("x", &x.var), ("y", &y.var)]);
    Ok(Some(Launch { wgsl, entry, words, groups }))
}
