//! Finding the family of a checkpoint among [`FAMILIES`].

use super::FAMILIES;
use super::checkpoint::{Checkpoint, Source};
use super::family::Family;
use super::model::Model;
use crate::error::{Code, Error, Result};
use crate::profile::Presets;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

/// The presets of the family of that name.
pub fn presets(family: &str) -> Option<Presets> {
    FAMILIES.iter().find(|f| f.name == family).map(|f| f.presets)
}

/// Reads a checkpoint's configuration with its family's reader.
///
/// # Errors
/// `BadFile` where the file does not say what it is; `Unsupported` for what is not in [`FAMILIES`],
/// and for a key that the family does not know; else as the family's reader.
pub fn open(checkpoint: &Checkpoint<'_>) -> Result<Box<dyn Model>> {
    let word = checkpoint.architecture()?;
    let is_gguf = matches!(checkpoint.source, Source::Gguf(_));
    let names = |f: &Family| if is_gguf { f.gguf } else { f.transformers };
    if let Some(family) = FAMILIES.iter().find(|f| names(f).contains(&word)) {
        return (family.open)(checkpoint);
    }
    let known: Vec<&str> = FAMILIES.iter().flat_map(|f| names(f).iter().copied()).collect();
    let mut error = match checkpoint.source {
        Source::Gguf(files) => {
            files.metadata.bad_value("general.architecture", format!("unknown architecture {word}"))
        }
        Source::Transformers { .. } => {
            Error::bad_file(format!("unknown model_type {word}")).at("config.json")
        }
    };
    error.code = Code::Unsupported;
    Err(error.hint(format!("known: {}", known.join(", "))))
}
