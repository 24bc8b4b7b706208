//! Vision Transformer (Dosovitskiy et al. 2020, arXiv:2010.11929): images of one size.
//!
//! Differs from the paper: `pooler_output`, where the file has its weights, is `tanh(dense(first row))`.

use super::checkpoint::Checkpoint;
use super::family::Family;
use super::vision_transformer::{ImageEncoder, ImageLayers};
use crate::error::Result;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::format;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "vit",
    presets: Presets::of(Preset::Encoder),
    gguf: &[],
    transformers: &["vit"],
    open: |checkpoint| Ok(Box::new(open(checkpoint)?)),
};

/// Reads a checkpoint's configuration.
///
/// # Errors
/// `BadFile` naming the key that is missing, mistyped or 0; `Unsupported` for a key or a value that this
/// version does not know.
fn open(checkpoint: &Checkpoint<'_>) -> Result<ImageEncoder> {
    ImageEncoder::read(checkpoint, FAMILY.name, (16, 1e-12), |keys, dim| {
        // The stride of a decoder that is trained with the encoder and thrown away.
        keys.inert(&["encoder_stride"]);
        if let Some(act) = keys.opt_str("pooler_act")?.filter(|&act| act != "tanh") {
            let what = format!("pooler_act `{act}` is not supported");
            return Err(keys.unsupported("pooler_act", what, "supported: tanh"));
        }
        if let Some(n) = keys.opt_u64("pooler_output_size")?.filter(|&n| n != dim) {
            let what = format!("pooler_output_size is {n}, and only {dim} is supported here");
            return Err(keys.unsupported("pooler_output_size", what, "supported: hidden_size"));
        }
        Ok((keys.positive("intermediate_size")?, ImageLayers::Vit))
    })
}
