//! Which text a kernel has: one of our own, or WGSL's by naga.

pub use crate::msl::Text;
use crate::msl;
use rlx_core::{Error, Result};
use rlx_webgpu::gpu::Form;

/// The WGSL text in MSL.
pub(crate) fn naga(wgsl: &str, entry: &str, bindings: usize) -> Result<Text> {
    let bindings = u32::try_from(bindings).map_err(|_| Error::internal("too many bindings"))?;
    msl::translate(wgsl, entry, bindings)
}

/// Our own text of a form, if there is one.
pub(crate) fn own(_form: &Form) -> Option<Text> {
    None
}
