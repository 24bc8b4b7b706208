//! Segment Anything (Kirillov et al. 2023, arXiv:2304.02643): an image is encoded once, then any number of points,
//! boxes and masks ask for what they show.
//!
//! G places along an edge of the grid of patches   D width of the image's layers   C width of everything after
//!
//! Two networks with shared weights, and a third where a mask is among what is shown:
//!
//! - `image_embed`: `pixel_values [BATCH, 3, S, S]` to `image_embeddings [BATCH, C, G, G]` (`image.rs`).
//! - `mask`: `image_embeddings`, `input_points [BATCH, PROMPTS, POINTS, 2]` (x and y, in pixels of the padded
//!   image) and `input_labels [BATCH, PROMPTS, POINTS]` (i32) to masks (`mask.rs`). A label is 1 for a point of the
//!   thing and 0 for one beside it, 2 and 3 for the top left and bottom right corner of a box, -1 for no point
//!   and -10 for padding, whose embedding is zero. The makers add one point of label -1 to prompts without a box,
//!   and none to those with one.
//! - `mask_from_mask`: the same with `input_masks [BATCH, 1, 4 G, 4 G]`, logits of an earlier mask.
//!
//! Outputs are `pred_masks [BATCH, PROMPTS, M, 4 G, 4 G]` and `iou_scores [BATCH, PROMPTS, M]`: M readings of a
//! prompt that may mean several things, and what each is thought to be worth; `single_mask` and `single_score`,
//! with 1 for M, are the answer to a prompt that means one thing. Masks are logits: 0 is the edge.

mod image;
mod make;
mod mask;
mod parse;
mod prompt;
mod track;

pub use mask::{MaskDecoder, MaskNetwork, Second};
pub use prompt::SamPrompt;
pub(super) use {make::Make, mask::LAST_EPS, parse::*};

use super::checkpoint::Checkpoint;
use super::family::Family;
use super::keys::Keys;
use super::model::{Facts, Model, Task};
use super::tensors::Tensors;
use super::transformers;
use crate::error::Result;
use crate::ir::hir::Module;
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "sam",
    presets: Presets::of(Preset::SamEncoder),
    gguf: &[],
    transformers: &["sam"],
    open: |checkpoint| Ok(Box::new(SamConfig::open(checkpoint)?)),
};

/// The entry that encodes an image.
pub const IMAGE_EMBED: &str = "image_embed";
/// The entry that makes masks of points and boxes.
pub const MASK: &str = "mask";
/// The entry that makes masks of points, boxes and an earlier mask.
pub const MASK_FROM_MASK: &str = "mask_from_mask";

/// Features of SAM 2 that are twice and four times as fine as the grid, an output of the image's encoder and an input
/// of the decoder.
pub(super) const MIDDLE: &str = "middle_embeddings";
pub(super) const FINE: &str = "fine_embeddings";

/// Labels of points, as `input_labels` has them.
pub mod label {
    /// A point beside the thing.
    pub const BESIDE: i32 = 0;
    /// A point of the thing.
    pub const OF_IT: i32 = 1;
    /// The top left corner of a box.
    pub const TOP_LEFT: i32 = 2;
    /// The bottom right corner of a box.
    pub const BOTTOM_RIGHT: i32 = 3;
    /// No point: what ends a prompt without a box.
    pub const NONE: i32 = -1;
    /// Fills prompts up to the length of the longest.
    pub const PADDING: i32 = -10;
}

/// Sizes and constants of one checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct SamConfig {
    /// The image's layers: for each whether a place sees the whole grid and not its window alone.
    pub global: Vec<bool>,
    /// D.
    pub dim: u64,
    /// Width within the image's feed-forward.
    pub ffn_dim: u64,
    /// Heads of the image's layers.
    pub heads: u64,
    /// Pixels along an edge of a patch.
    pub patch: u64,
    /// Places along an edge of a window.
    pub window: u64,
    /// Whether the projections to queries, keys and values have biases.
    pub qkv_bias: bool,
    /// Added to the variance in norms of the image's layers.
    pub eps: f32,
    /// What stands within the image's feed-forward.
    pub act: Unary,
    /// All that follows.
    pub masks: MaskNetwork,
}

impl SamConfig {
    /// Reads a checkpoint's configuration.
    ///
    /// # Errors
    /// `BadFile` naming the key that is missing, mistyped, 0, or no match for another; `Unsupported` for a key or
    /// a value that this version does not know.
    pub fn open(checkpoint: &Checkpoint<'_>) -> Result<Self> {
        let keys = checkpoint.keys()?;
        transformers::common(&keys)?;
        keys.inert(REPEATED);
        let mut config = Self::vision(&part(&keys, "vision_config")?)?;
        config.masks.prompts(&part(&keys, "prompt_encoder_config")?)?;
        config.masks.decoded(&part(&keys, "mask_decoder_config")?)?;
        keys.finish()?;
        Ok(config)
    }

    /// Places along an edge of the grid of patches: G.
    pub fn grid(&self) -> u64 {
        self.masks.grid
    }

    /// The image encoder's part; the others are filled in by those who read them.
    fn vision(keys: &Keys<'_>) -> Result<Self> {
        // What the random start was made with, and what the first configurations were copied from.
        keys.inert(&["scale", "intermediate_size", "projection_dim"]);
        keys.neutral(&[
            ("use_abs_pos", 1.0, "leaves positions out"),
            ("use_rel_pos", 1.0, "leaves relative positions out"),
            ("num_channels", 3.0, "takes images that are not red, green and blue"),
        ])?;
        let layers = keys.layers("num_hidden_layers")?;
        let dim = width(keys, "hidden_size")?;
        let heads = keys.positive("num_attention_heads")?;
        divides(keys, "num_attention_heads", heads, dim, "hidden_size")?;
        let (image, patch) = (keys.positive("image_size")?, keys.positive("patch_size")?);
        let grid = divides(keys, "patch_size", patch, image, "image_size")?;
        at_most(keys, "image_size / patch_size", grid, EDGE_MOST)?;
        let window =
            at_most(keys, "window_size", keys.opt_u64("window_size")?.unwrap_or(0), EDGE_MOST)?;
        // Without windows every layer sees the whole grid.
        let mut global = alloc::vec![window == 0; layers as usize];
        const GLOBAL: &str = "global_attn_indexes";
        for at in keys.opt_u64s(GLOBAL)?.unwrap_or_default() {
            match usize::try_from(at).ok().and_then(|at| global.get_mut(at)) {
                Some(layer) => *layer = true,
                None => {
                    let what = format!("{GLOBAL} names layer {at}, and there are {layers}");
                    return Err(keys.bad(GLOBAL, what));
                }
            }
        }
        let ratio = keys.opt_above_zero("mlp_ratio")?.unwrap_or(4.0);
        let ffn_dim = match keys.opt_positive("mlp_dim")? {
            Some(n) => n,
            None => (dim as f64 * f64::from(ratio)) as u64,
        };
        if ffn_dim == 0 {
            return Err(keys.bad("mlp_ratio", "mlp_ratio leaves nothing of hidden_size"));
        }
        let channels = width(keys, "output_channels")?;
        // A position is a sine and a cosine of each.
        let features = width(keys, "num_pos_feats")?;
        same(keys, "output_channels", channels, 2 * features, "2 num_pos_feats")?;
        let eps = keys.opt_f32("layer_norm_eps")?.unwrap_or(1e-6);
        Ok(SamConfig {
            global,
            dim,
            ffn_dim: at_most(keys, "mlp_dim", ffn_dim, WIDTH_MOST)?,
            heads,
            patch,
            window,
            qkv_bias: keys.opt_bool("qkv_bias")?.unwrap_or(true),
            eps,
            act: transformers::activation(keys, "hidden_act", Unary::GeluErf)?,
            masks: MaskNetwork::blank(image, grid, channels, eps),
        })
    }
}

impl Model for SamConfig {
    fn facts(&self) -> Facts {
        Facts {
            family: FAMILY.name,
            task: Task::Segment,
            layers: self.global.len() as u64,
            context: self.grid() * self.grid(),
            vocab: 0,
            width: self.masks.width,
        }
    }

    fn build(&self, tensors: &Tensors<'_>, _context: u64) -> Result<Module> {
        self.image_embed(tensors)
    }

    fn networks(&self, tensors: &Tensors<'_>, _: u64) -> Result<Vec<(&'static str, Module)>> {
        Ok(Vec::from([
            (IMAGE_EMBED, self.image_embed(tensors)?),
            (MASK, self.masks.module(tensors, false)?),
            (MASK_FROM_MASK, self.masks.module(tensors, true)?),
        ]))
    }

    fn small(&self, layers: &[u64]) -> Box<dyn Model> {
        let own = |&at: &u64| self.global.get(at as usize).copied().unwrap_or(true);
        Box::new(SamConfig { global: layers.iter().map(own).collect(), ..self.clone() })
    }
}
