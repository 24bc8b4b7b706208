//! How many positions a window has along an axis.

use crate::error::{Error, Result};
use crate::types::{Dim, DimOp};
use alloc::format;

/// `floor((input + pad - reach) / stride) + 1`, for a stride of 1 or more.
///
/// # Errors
/// `BadGraph` for a window that does not fit. Whether it fits a symbolic axis is known when the
/// symbol is bound: the type rule runs again.
pub(crate) fn slide(input: &Dim, pad: u64, reach: u64, stride: u64) -> Result<Dim> {
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
    let shift = pad.saturating_add(stride);
    let sum = match shift.checked_sub(reach) {
        Some(more) => input.add(&Dim::from(more))?,
        None => input.sub(reach - shift)?,
    };
    if stride == 1 { Ok(sum) } else { sum.apply(DimOp::FloorDiv, &Dim::from(stride)) }
}
