//! DINOv2 (Oquab et al. 2023, arXiv:2304.07193), also with registers (Darcet et al. 2023,
//! arXiv:2309.16588): images of any size. `pooler_output` is the normed first row.

use super::checkpoint::Checkpoint;
use super::family::Family;
use super::vision_transformer::{ImageEncoder, ImageLayers};
use crate::error::Result;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::format;

/// `model_type` of models with registers.
const REGISTERS: &str = "dinov2_with_registers";

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "dinov2",
    presets: Presets::of(Preset::Encoder),
    gguf: &[],
    transformers: &["dinov2", REGISTERS],
    open: |checkpoint| Ok(Box::new(open(checkpoint)?)),
};

/// Reads a checkpoint's configuration.
///
/// # Errors
/// `BadFile` naming the key that is missing, mistyped or 0; `Unsupported` for a key or a value that this
/// version does not know.
fn open(checkpoint: &Checkpoint<'_>) -> Result<ImageEncoder> {
    let with_registers = checkpoint.architecture()? == REGISTERS;
    ImageEncoder::read(checkpoint, FAMILY.name, (14, 1e-6), |keys, dim| {
        // What a scale began with in training, what training drops, and what a backbone gives to a
        // detector, which is none of the outputs here.
        keys.inert(&[
            "apply_layernorm",
            "drop_path_rate",
            "layerscale_value",
            "out_features",
            "out_indices",
            "reshape_hidden_states",
            "stage_names",
            "use_mask_token",
        ]);
        let ratio = keys.opt_positive("mlp_ratio")?.unwrap_or(4);
        let gated = keys.opt_bool("use_swiglu_ffn")?.unwrap_or(false);
        // Both are below 2^32.
        let whole = dim * ratio;
        // Of three matrices in place of two, as much in all, in steps of 8.
        let gated_width = || whole.checked_mul(2).map(|n| (n / 3).div_ceil(8) * 8);
        let ffn = if gated { gated_width() } else { Some(whole) };
        let Some(ffn) = ffn.filter(|&n| n <= u64::from(u32::MAX)) else {
            let what = format!("mlp_ratio {ratio} makes rows of {dim} too wide");
            return Err(keys.bad("mlp_ratio", what));
        };
        let registers = match with_registers {
            true => keys.opt_u64("num_register_tokens")?.unwrap_or(4),
            false => 0,
        };
        Ok((ffn, ImageLayers::Dino { registers, antialias: with_registers, gated }))
    })
}
