//! How many positions a window has along an axis.

use crate::error::{Error, Result};
use crate::types::{Dim, DimOp};
use alloc::format;

/// `floor((input + pad - reach) / stride) + 1`, for a stride of 1 or more.
///
/// # Errors
/// `BadGraph` for a window that does not fit, or, on a symbolic axis, for one that padding and
/// stride together do not make up for: sizes have no subtraction.
pub(super) fn slide(input: &Dim, pad: u64, reach: u64, stride: u64) -> Result<Dim> {
    if let Some(n) = input.as_static() {
        let room = n.checked_add(pad).and_then(|n| n.checked_sub(reach));
        let room = room.ok_or_else(|| {
            Error::bad_graph(format!(
                "a window of {reach} elements does not fit, with {pad} of padding"
            ))
        })?;
        return Ok(Dim::from(room / stride + 1));
    }
    // floor((n + pad - reach) / stride) + 1 = floor((n + pad + stride - reach) / stride)
    let Some(shift) = pad.saturating_add(stride).checked_sub(reach) else {
        return Err(Error::bad_graph(format!(
            "a window of {reach} elements with {pad} of padding and stride {stride} takes {} from it",
            reach - pad - stride
        ))
        .hint("sizes of symbols only grow: pad more, or bind the symbol first"));
    };
    let sum = input.add(&Dim::from(shift))?;
    if stride == 1 { Ok(sum) } else { sum.apply(DimOp::FloorDiv, &Dim::from(stride)) }
}
