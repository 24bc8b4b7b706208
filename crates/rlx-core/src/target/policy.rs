//! How a device is used where nobody asks for anything else.

use super::Activations;
use crate::types::DType;

/// What an executor recommends to whoever opens a model on it: the same in a page and natively. No plan
/// depends on it but through the options that are made of it, so no description of a target has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Rows of a prompt's chunk.
    pub chunk: u64,
    /// Rows of the program for short prompts and for what long ones leave over, where that is worth one.
    pub short: Option<u64>,
    /// Element type of the caches.
    pub kv: DType,
    /// Activation type in matmuls of packed weights.
    pub activations: Activations,
    /// Whether others use the device too, so that submissions are kept short.
    pub paced: bool,
    /// Whether drivers stand between it and the hardware: a model's twin is tried before the model.
    pub checked: bool,
}

impl Policy {
    /// Small chunks and f32 throughout, on a device that nobody shares and nothing stands before.
    pub const PLAIN: Policy = Policy {
        chunk: 32,
        short: None,
        kv: DType::F32,
        activations: Activations::F32,
        paced: false,
        checked: false,
    };
}
