//! f32 rows to blocks of integers. Rows are whole blocks, so all of them are one run of blocks.

use crate::error::{Error, Result};
use crate::formats::activations;
use crate::ops::QuantizeRows;
use crate::reference::execute::arity;
use crate::reference::{Run, View};
use crate::types::BlockFormat;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Run for QuantizeRows {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("quantize_rows")) };
        let mut out = blocks(&x.f32s()?, self.format)?;
        if self.only_large {
            let rows = x.ty.shape.rows()?.as_static().unwrap_or(0) as usize;
            let row_bytes = (out.len() / rows.max(1)).max(1);
            for row in out.chunks_exact_mut(row_bytes) {
                activations::keep_large(row)?;
            }
        }
        Ok(vec![out])
    }
}

/// The blocks of whole rows.
pub(super) fn blocks(x: &[f32], format: BlockFormat) -> Result<Vec<u8>> {
    let mut out = vec![0; x.len() / format.elements() * format.bytes()];
    match format {
        BlockFormat::Q8_0 => activations::encode_q8_0(x, &mut out)?,
        BlockFormat::Q8K => activations::encode_q8_k(x, &mut out)?,
        BlockFormat::Q15_0 => activations::encode_q15_0(x, &mut out)?,
        other => return Err(Error::internal(format!("nothing encodes {}", other.name()))),
    }
    Ok(out)
}
