//! Memory for results whose sizes attributes make.

use crate::error::{Code, Error, Result};
use alloc::format;
use alloc::vec::Vec;

/// `fill` as often as a tensor of these sizes has elements.
///
/// # Errors
/// `OutOfMemory` where there is no room for them.
pub(crate) fn filled(dims: &[u64], fill: f64) -> Result<Vec<f64>> {
    let full = || Error::new(Code::OutOfMemory, format!("no room for a tensor of {dims:?}"));
    let n = dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d)).ok_or_else(full)?;
    let n = usize::try_from(n).map_err(|_| full())?;
    let mut out = Vec::new();
    out.try_reserve_exact(n).map_err(|_| full())?;
    out.resize(n, fill);
    Ok(out)
}
