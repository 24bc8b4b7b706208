//! The MSL of a WGSL text whose bindings are counted.

use crate::msl;
pub use crate::msl::Text;
use rlx_core::{Error, Result};

/// The WGSL text in MSL.
pub(crate) fn naga(wgsl: &str, entry: &str, bindings: usize) -> Result<Text> {
    let bindings = u32::try_from(bindings).map_err(|_| Error::internal("too many bindings"))?;
    msl::translate(wgsl, entry, bindings)
}
