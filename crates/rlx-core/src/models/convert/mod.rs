//! A decoder's transformers folder as a GGUF file: its keys, and its tensors as views of the folder's. Nothing here
//! reads or writes a tensor's bytes.
//!
//! The family's reader makes a `Decoder` of the folder; `keys` says it in GGUF's words, `tensors` says where each
//! tensor's numbers are, and `check` reads both back as any file and compares. A part that files of the architecture
//! cannot say is an error.

mod check;
mod keys;
mod tensors;
#[cfg(feature = "text")]
mod tokenizer;
mod view;

pub use tensors::{Change, Converted, Numbers};
#[cfg(feature = "text")]
pub use tokenizer::tokenizer_keys;
pub use view::View;

use super::FAMILIES;
use super::checkpoint::{Checkpoint, Source};
use super::decoder::Decoder;
use super::registry::open;
use crate::error::{Error, Result};
use crate::gguf::{Array, Value};
use crate::ir::mir::ParamKind;
use crate::ops::RopeStyle;
use crate::safetensors::json::Json;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A folder's model as a GGUF file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversion {
    /// `general.architecture`.
    pub architecture: &'static str,
    /// Rows of the table of embeddings.
    pub vocab: u64,
    /// That key, and the architecture's.
    pub keys: Vec<(String, Value)>,
    /// The tensors.
    pub tensors: Vec<Converted>,
}

/// What the GGUF file of a transformers folder has.
///
/// # Errors
/// As the family's reader for what is in the folder; `Unsupported` for a model that GGUF has no architecture for, and
/// for a part of it that files of its architecture cannot say; `Usage` for what is a GGUF file already.
pub fn conversion(checkpoint: &Checkpoint<'_>) -> Result<Conversion> {
    let Source::Transformers { config, .. } = checkpoint.source else {
        return Err(Error::usage("this is a GGUF file already").hint("see `rlx quantize`"));
    };
    let model = open(checkpoint)?;
    // Sees that every tensor of the folder has its place and its shape.
    let module = model.module(checkpoint, 1)?;
    let family = model.facts().family;
    let Some(model) = model.decoder() else {
        return Err(keys::refused(format!(
            "the family {family} is no decoder, and only decoders are converted"
        )));
    };
    let architecture = architecture(model)?;
    let mut all =
        Vec::from([(String::from("general.architecture"), Value::String(architecture.into()))]);
    all.extend(keys::keys(model, architecture)?);
    all.extend(sections(config, model, architecture));
    let tensors = tensors::tensors(checkpoint, model, architecture)?;
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for tensor in &tensors {
        match &tensor.numbers {
            Numbers::Views(views) => used.extend(views.iter().map(|view| view.tensor.as_str())),
            Numbers::Packed(weight) => {
                used.insert(weight);
            }
            Numbers::Values(_) => {}
        }
    }
    let mut weights = module.params.iter().filter(|p| p.kind == ParamKind::Weight);
    if let Some(weight) = weights.find(|w| !used.contains(w.name.as_str())) {
        let what = format!("tensor {} has no place in a GGUF file", weight.name);
        return Err(keys::refused(what));
    }
    check::check(model, &all, &tensors, tensors::paired(architecture))?;
    Ok(Conversion { architecture, vocab: model.vocab, keys: all, tensors })
}

/// The architecture of a model's GGUF files.
fn architecture(model: &Decoder) -> Result<&'static str> {
    let family = FAMILIES.iter().find(|family| family.name == model.family);
    let names = family.map_or(&[][..], |family| family.gguf);
    Ok(match (model.family, names) {
        // Their files are those of LLaMA.
        ("mistral" | "mixtral", _) => "llama",
        ("qwen35", [dense, experts]) => {
            if model.has_experts() {
                experts
            } else {
                dense
            }
        }
        (_, [first, ..]) => first,
        (family, []) => {
            return Err(keys::refused(format!("GGUF has no architecture for the family {family}")));
        }
    })
}

/// How many pairs turn by each of an image's positions, which llama.cpp wants to be told of Qwen3.5. A text's
/// positions are all equal.
fn sections(config: &Json, model: &Decoder, architecture: &str) -> Option<(String, Value)> {
    if !architecture.starts_with("qwen35") || model.rope_style != RopeStyle::Half {
        return None;
    }
    let pairs = model.rotary.first()?.dims / 2;
    let said = config.get("rope_parameters").or(config.get("rope_scaling"));
    let said = said.and_then(|of| of.get("mrope_section")).and_then(Json::as_array);
    let said = said.map(|list| list.iter().filter_map(Json::as_u64).collect::<Vec<u64>>());
    let sections = said.filter(|list| list.len() == 3 && list.iter().sum::<u64>() == pairs);
    let sections = sections.unwrap_or_else(|| Vec::from([pairs, 0, 0]));
    let sections = sections.into_iter().chain([0]).map(|n| n as i32).collect();
    Some((format!("{architecture}.rope.dimension_sections"), Value::Array(Array::I32(sections))))
}
