//! What costs a planned device no step: constants, and the same bytes under another type.

use super::builder::{Builder, El, V};
use super::{Node, storage};
use rlx_core::ops::{Alias, CANVAS_WORDS, Op, Token};
use rlx_core::{Code, Error, Result};

/// A constant's value; nothing for any other operator.
///
/// # Errors
/// `Unsupported` for a table whose frequencies a tensor divides.
pub(super) fn constant(b: &mut Builder, node: &Node<'_>) -> Result<Option<V>> {
    match node.op {
        Op::Constant(c) => {
            let (el, dims) = storage(&c.ty)?;
            Ok(Some(b.literal(el, &dims, &c.data)))
        }
        Op::RopeTable(table) if node.values.is_empty() => {
            let rows = table.low_rows() + table.high_rows();
            let bytes: Vec<u8> = table.compute(None).iter().flat_map(|x| x.to_le_bytes()).collect();
            Ok(Some(b.literal(El::F32, &[rows, table.dims as u64 / 2, 2], &bytes)))
        }
        Op::RopeTable(_) => {
            let what = "XLA does not run rope_table: a weight divides its frequencies";
            Err(Error::new(Code::Unsupported, what))
        }
        _ => Ok(None),
    }
}

/// A view of operand 0.
pub(super) fn view(b: &mut Builder, node: &Node<'_>) -> Result<V> {
    let x = node.value(0)?.clone();
    let (el, dims) = storage(node.results.first().ok_or_else(|| node.mismatch())?)?;
    if node.ty(0)?.dtype.is_block() {
        let Alias::View { byte_offset, .. } = node.op.alias(&node.types) else {
            return Err(node.mismatch());
        };
        return Ok(b.part(&x, 0, byte_offset, dims[0]));
    }
    let x = match node.op {
        Op::Token(_) => b.part(&x, 0, Token::WORD, 1),
        Op::CanvasIds(_) => {
            let n = x.dims.first().copied().unwrap_or(0).saturating_sub(CANVAS_WORDS);
            b.part(&x, 0, CANVAS_WORDS, n)
        }
        Op::Slice(op) => {
            let (start, len) = (op.start.as_static(), op.len.as_static());
            let (Some(start), Some(len)) = (start, len) else { return Err(node.mismatch()) };
            if op.axis >= x.dims.len() || op.step < 1 {
                return Err(node.mismatch());
            }
            let mut ranges: Vec<(u64, u64, u64)> = x.dims.iter().map(|&d| (0, d, 1)).collect();
            let step = op.step.unsigned_abs();
            let end = start.saturating_add(len.saturating_mul(step));
            ranges[op.axis] = (start, end.min(x.dims[op.axis]), step);
            b.slice(&x, &ranges)
        }
        Op::Transpose(op) => b.transpose(&x, &op.perm),
        Op::Reshape(_) | Op::StateRead(_) | Op::Cast(_) | Op::Concat(_) | Op::Expand(_) => x,
        _ => return Err(node.mismatch()),
    };
    debug_assert_eq!(x.el, el);
    Ok(b.reshape(&x, &dims))
}
