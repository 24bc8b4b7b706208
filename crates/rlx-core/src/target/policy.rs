//! The options that an executor recommends for its device.

use super::{Activations, ProgramActivations};
use crate::types::DType;

/// The options that an executor recommends for a model, in a page and natively. Plans depend on it only through
/// the options made from it, so a target's description does not include it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Rows of a prompt's chunk.
    pub chunk: u64,
    /// Rows of the program for short prompts and for the rest of long ones, if such a program is worth it.
    pub short: Option<u64>,
    /// Element type of the caches.
    pub kv: DType,
    /// Activation types in matmuls of packed weights.
    pub activations: ProgramActivations,
    /// Whether others use the device too, so that submissions must be short.
    pub paced: bool,
    /// Whether a driver may compute wrong values, so that a model's twin is tested before the model.
    pub checked: bool,
}

impl Policy {
    /// Small chunks and f32 throughout, for a device that is neither shared nor tested.
    pub const PLAIN: Policy = Policy {
        chunk: 32,
        short: None,
        kv: DType::F32,
        activations: ProgramActivations::all(Activations::F32),
        paced: false,
        checked: false,
    };
}
