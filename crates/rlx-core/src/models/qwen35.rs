//! Qwen3.5 (Qwen Team 2026), its text model: Qwen3-Next with a projection of its own for each of the linear
//! attention's gates, with experts or without.

use super::checkpoint::Checkpoint;
use super::decoder::{Decoder, Projections};
use super::family::Family;
use super::qwen3_next::{decoder, delta_net};
use crate::error::Result;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "qwen35",
    presets: Presets { one_row: Preset::Qwen35Decode, rows: Preset::Qwen35Prefill },
    gguf: &["qwen35", "qwen35moe"],
    transformers: &["qwen3_5_text", "qwen3_5_moe_text"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    // Of images and videos; the three counts of a text's positions are equal, and so are their angles.
    keys.inert(&["rope.dimension_sections"]);
    // The converter to GGUF puts value heads of one key head apart.
    let delta = delta_net(&keys, keys.is_gguf(), Projections::Apart)?;
    decoder(checkpoint, &keys, delta, FAMILY.name)
}
