//! What a family of models is: a row of [`FAMILIES`](super::FAMILIES), which stands in the family's own file.

use super::checkpoint::Checkpoint;
use super::model::Model;
use crate::error::Result;
use crate::profile::Presets;
use alloc::boxed::Box;

/// A family of models.
pub struct Family {
    /// Its name in docs.
    pub name: &'static str,
    /// What its programs are compiled by, unless a caller says otherwise.
    pub presets: Presets,
    /// `general.architecture` of its GGUF files.
    pub gguf: &'static [&'static str],
    /// `model_type` in its transformers configurations, or `_class_name` in those of diffusers.
    pub transformers: &'static [&'static str],
    /// Reads the configuration, every key of it.
    pub open: fn(&Checkpoint<'_>) -> Result<Box<dyn Model>>,
}
