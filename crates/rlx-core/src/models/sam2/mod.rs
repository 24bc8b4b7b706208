//! SAM 2 (Ravi et al. 2024, arXiv:2408.00714): an image is encoded once by Hiera (arXiv:2306.00989), then any number of
//! points, boxes and masks ask for what they show. Models that say `sam2_video` also follow things through a film,
//! frame by frame.
//!
//! G places along an edge of the grid that prompts look at, a sixteenth of the image as published   C its width
//!
//! Networks with shared weights:
//!
//! - `image_embed`: `pixel_values [BATCH, 3, S, S]` to `image_embeddings [BATCH, C, G, G]`, and features that are
//!   finer: `middle_embeddings [BATCH, C / 4, 2 G, 2 G]` and `fine_embeddings [BATCH, C / 8, 4 G, 4 G]` (`image.rs`).
//! - `mask` and `mask_from_mask`: those three and prompts to masks, as in `sam`, but that a point of label -1 ends
//!   prompts with a box too. Scores are from 0 to 1, and a third output, `object_score_logits [BATCH, PROMPTS, 1]`,
//!   is above 0 where the thing is there at all. `single_mask` is one of `pred_masks` where the mask for prompts
//!   that mean one thing is not stable and the configuration says so.
//!
//! Of models that follow things `image_embed` has one more output, `image_features [BATCH, C, G, G]`: features to which
//! nothing is added that says "without memory". Three more networks are for one image and one thing, whose memories
//! are K grids of numbers M wide, and P pointers. They stay on the device.
//!
//! - `condition` (`memory.rs`): `image_features`, `memories [K, G G, M]`, `memory_times [K]` (u32: rows of the table
//!   of times, which is one less than frames ago, or the last for the frame where the thing was shown),
//!   `memories_seen [K]` (1 where there is one, else 0), `pointers [P, C]`, `pointers_seen [P]`, `pointer_times [P]`
//!   (frames ago, as parts of the longest; only if the configuration has them) to `image_embeddings [1, C, G, G]`.
//! - `track` (`sam/track.rs`): inputs of `mask` and `several [1]` (i32: 1 to take the best of several masks) to
//!   `mask [1, 1, 4 G, 4 G]`, `score [1, 1]`, `object_score_logits [1, 1]` and `pointer [1, C]`. The mask is -1024 all
//!   over where the thing is not there.
//! - `remember` (`memory.rs`): `image_features`, these `mask`, `object_score_logits` and `pointer`, `shown [1]` (i32: 1
//!   on the frame where the thing is shown), `memories`, `memory_slot [1]` (i32: which is replaced; -1 for none),
//!   `pointers`, `pointer_slot [1]` to `new_memories [K, G G, M]` and `new_pointers [P, C]`.
//!
//! The makers round memories to bfloat16; here they stay f32.

mod image;
mod memory;
mod video;

pub use video::{MemoryAttention, MemoryEncoder, Sam2Video, Several};

use super::checkpoint::Checkpoint;
use super::family::Family;
use super::keys::Keys;
use super::model::{Facts, Model, Task};
use super::sam::{
    EDGE_MOST, IMAGE_EMBED, LAST_EPS, MASK, MASK_FROM_MASK, MaskNetwork, REPEATED, Second,
    WIDTH_MOST, at_most, both, divides, part, same, width,
};
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
    name: "sam2",
    presets: Presets::of(Preset::SamEncoder),
    gguf: &[],
    transformers: &["sam2", VIDEO],
    open: |checkpoint| Ok(Box::new(Sam2Config::open(checkpoint)?)),
};

/// What configurations of models call themselves that also follow things through films.
const VIDEO: &str = "sam2_video";

/// The entry that makes an image's features know of a thing.
pub const CONDITION: &str = "condition";
/// The entry that makes the one mask of a thing on a frame.
pub const TRACK: &str = "track";
/// The entry that remembers a thing.
pub const REMEMBER: &str = "remember";

/// Stages of the encoder, each half as fine as the one before. The features of the first three are used.
const STAGES: usize = 4;

/// Sizes and constants of one checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Sam2Config {
    /// The blocks of the image's encoder.
    pub blocks: Vec<HieraBlock>,
    /// Width of each stage.
    pub dims: [u64; STAGES],
    /// Pixels along an edge of the window of the first convolution, an odd number.
    pub kernel: u64,
    /// Pixels between its places.
    pub stride: u64,
    /// Places along an edge of the coarse table of positions.
    pub positions: u64,
    /// Places along an edge of the table of positions within a window.
    pub window: u64,
    /// Added to the variance in the encoder's norms.
    pub eps: f32,
    /// What stands within its feed-forward.
    pub act: Unary,
    /// Whether the features of a stage have those of the next one added.
    pub top_down: [bool; STAGES],
    /// All that follows.
    pub masks: MaskNetwork,
    /// The memory of a model that follows things through films.
    pub video: Option<Sam2Video>,
}

/// A block of Hiera.
#[derive(Clone, Debug, PartialEq)]
pub struct HieraBlock {
    /// Its stage, from 0.
    pub stage: usize,
    /// Whether it is the first of its stage, and the stage is not the first: its queries are pooled.
    pub pools: bool,
    /// Places along an edge of a window before pooling; 0 where a place sees the whole grid.
    pub window: u64,
    /// Its heads.
    pub heads: u64,
    /// Width within its feed-forward.
    pub ffn_dim: u64,
}

/// What of the encoder's configuration changes nothing: sizes that follow from others, and defaults of parts that name
/// their own.
const VISION_INERT: &[&str] = &["backbone_feature_sizes", "hidden_act", "layer_norm_eps"];

/// A number of each stage.
fn stages(keys: &Keys<'_>, name: &str, least: u64, most: u64) -> Result<[u64; STAGES]> {
    let list = keys.opt_u64s(name)?.unwrap_or_default();
    let Ok(list) = <[u64; STAGES]>::try_from(list.as_slice()) else {
        let what = format!("{name} has {} numbers, expected {STAGES}", list.len());
        return Err(keys.bad(name, what));
    };
    match list.iter().find(|n| !(least..=most).contains(n)) {
        Some(n) => Err(keys.bad(name, format!("{name} has {n}, expected {least} to {most}"))),
        None => Ok(list),
    }
}

impl Sam2Config {
    /// Reads a checkpoint's configuration.
    ///
    /// # Errors
    /// `BadFile` naming the key that is missing, mistyped, 0, or no match for another; `Unsupported` for a key or
    /// a value that this version does not know.
    pub fn open(checkpoint: &Checkpoint<'_>) -> Result<Self> {
        let keys = checkpoint.keys()?;
        transformers::common(&keys)?;
        keys.inert(REPEATED);
        let vision = part(&keys, "vision_config")?;
        let mut config = Self::hiera(&part(&vision, "backbone_config")?)?;
        config.pyramid(&vision)?;
        let prompts = part(&keys, "prompt_encoder_config")?;
        // What the random start was made with.
        prompts.inert(&["scale"]);
        config.masks.prompts(&prompts)?;
        config.decoded(&part(&keys, "mask_decoder_config")?)?;
        if keys.opt_str("model_type")? == Some(VIDEO) {
            let masks = &config.masks;
            let video = Sam2Video::open(&keys, masks.width, [masks.image, masks.grid])?;
            config.video = Some(video);
        }
        keys.finish()?;
        Ok(config)
    }

    /// Places along an edge of a stage's grid.
    pub fn grid(&self, stage: usize) -> u64 {
        (4 * self.masks.grid) >> stage
    }

    fn hiera(keys: &Keys<'_>) -> Result<Self> {
        // The heads of each stage are named.
        keys.inert(&["num_attention_heads"]);
        keys.neutral(&[
            ("num_channels", 3.0, "takes images that are not red, green and blue"),
            ("num_query_pool_stages", 3.0, "makes the grids of other stages coarser"),
        ])?;
        if both(keys, "query_stride", 2)? != 2 {
            let what = "query_stride is not 2, which is not supported";
            return Err(keys.unsupported("query_stride", what, "use a model whose stages halve"));
        }
        let (kernel, stride) =
            (both(keys, "patch_kernel_size", 7)?, both(keys, "patch_stride", 4)?);
        let padding = both(keys, "patch_padding", 3)?;
        if kernel > EDGE_MOST || padding.checked_mul(2).is_none_or(|n| n + 1 != kernel) {
            let what = format!("patch_padding {padding} is not half of a kernel of {kernel}");
            return Err(keys.unsupported("patch_padding", what, "use a published model"));
        }
        let image = both(keys, "image_size", 1024)?;
        if stride == 0 || image == 0 {
            return Err(keys.bad("patch_stride", "patch_stride or image_size is 0"));
        }
        let first = divides(keys, "patch_stride", stride, image, "image_size")?;
        at_most(keys, "image_size / patch_stride", first, 4 * EDGE_MOST)?;
        if !first.is_multiple_of(8) {
            let what = format!("image_size / patch_stride is {first}, no multiple of 8");
            return Err(keys.bad("image_size", what));
        }
        let counts = stages(keys, "blocks_per_stage", 1, 1024)?;
        let dims = stages(keys, "embed_dim_per_stage", 1, WIDTH_MOST)?;
        let heads = stages(keys, "num_attention_heads_per_stage", 1, WIDTH_MOST)?;
        let windows = stages(keys, "window_size_per_stage", 1, EDGE_MOST)?;
        same(keys, "hidden_size", width(keys, "hidden_size")?, dims[0], "the first stage's")?;
        divides(keys, "window_size_per_stage", windows[0], first, "the first grid")?;
        let ratio = f64::from(keys.opt_above_zero("mlp_ratio")?.unwrap_or(4.0));
        const GLOBAL: &str = "global_attention_blocks";
        let global = keys.opt_u64s(GLOBAL)?.unwrap_or_default();
        if dims.windows(2).any(|d| d[0] == d[1]) {
            let what = "two stages of embed_dim_per_stage are of one width";
            return Err(keys.unsupported("embed_dim_per_stage", what, "use a published model"));
        }
        let mut blocks = Vec::new();
        for stage in 0..STAGES {
            divides(keys, "num_attention_heads_per_stage", heads[stage], dims[stage], "a width")?;
            let ffn_dim =
                at_most(keys, "mlp_ratio", (dims[stage] as f64 * ratio) as u64, WIDTH_MOST)?;
            if ffn_dim == 0 {
                return Err(keys.bad("mlp_ratio", "mlp_ratio leaves nothing of a stage's width"));
            }
            for i in 0..counts[stage] {
                let pools = stage > 0 && i == 0;
                let own = if pools { windows[stage - 1] } else { windows[stage] };
                let window = if global.contains(&(blocks.len() as u64)) { 0 } else { own };
                // Pooled windows must cover the pooled grid as the windows did the grid.
                let grid = first >> (stage - usize::from(pools));
                if pools
                    && window != 0
                    && (window < 2 || grid.div_ceil(window) != (grid / 2).div_ceil(window / 2))
                {
                    let what = format!("windows of {window} do not halve on a grid of {grid}");
                    return Err(keys.bad("window_size_per_stage", what));
                }
                blocks.push(HieraBlock { stage, pools, window, heads: heads[stage], ffn_dim });
            }
        }
        if let Some(at) = global.iter().find(|&&at| at >= blocks.len() as u64) {
            let what = format!("{GLOBAL} names block {at}, and there are {}", blocks.len());
            return Err(keys.bad(GLOBAL, what));
        }
        const TABLE: &str = "window_positional_embedding_background_size";
        let positions = at_most(keys, TABLE, both(keys, TABLE, 7)?, EDGE_MOST)?;
        if positions == 0 {
            return Err(keys.bad(TABLE, format!("{TABLE} is 0")));
        }
        let eps = keys.opt_f32("layer_norm_eps")?.unwrap_or(1e-6);
        Ok(Sam2Config {
            blocks,
            dims,
            kernel,
            stride,
            positions,
            window: windows[0],
            eps,
            act: transformers::activation(keys, "hidden_act", Unary::GeluErf)?,
            top_down: [false; STAGES],
            masks: MaskNetwork::blank(image, first / 4, 1, eps),
            video: None,
        })
    }

    /// What makes the stages' features as wide as each other.
    fn pyramid(&mut self, keys: &Keys<'_>) -> Result<()> {
        keys.inert(VISION_INERT);
        keys.neutral(&[
            ("fpn_kernel_size", 1.0, "mixes neighbours"),
            ("fpn_stride", 1.0, "leaves places out"),
            ("fpn_padding", 0.0, "adds places"),
            ("num_feature_levels", 3.0, "uses features of other stages"),
        ])?;
        const CHANNELS: &str = "backbone_channel_list";
        let mut channels = stages(keys, CHANNELS, 1, WIDTH_MOST)?;
        channels.reverse();
        if channels != self.dims {
            let what = format!("{CHANNELS} is not embed_dim_per_stage from the last to the first");
            return Err(keys.bad(CHANNELS, what));
        }
        self.masks.width = width(keys, "fpn_hidden_size")?;
        const LEVELS: &str = "fpn_top_down_levels";
        let levels = keys.opt_u64s(LEVELS)?.unwrap_or(Vec::from([2, 3]));
        for level in levels {
            match usize::try_from(level).ok().and_then(|n| self.top_down.get_mut(n)) {
                Some(on) => *on = true,
                None => {
                    let what = format!("{LEVELS} has {level}, and there are {STAGES} levels");
                    return Err(keys.bad(LEVELS, what));
                }
            }
        }
        Ok(())
    }

    fn decoded(&mut self, keys: &Keys<'_>) -> Result<()> {
        self.masks.decoded(keys)?;
        // The library's feed-forward has its own number of layers by this key, and rectifiers whatever is named.
        let ffn_layers = self.masks.decoder.layers;
        self.masks.decoder.act = Unary::Relu;
        self.masks.decoder.eps = LAST_EPS;
        let number = |name: &str, usual: f32| -> Result<f32> {
            let x = keys.opt_f32(name)?.unwrap_or(usual);
            match (0.0..=1.0).contains(&x) {
                true => Ok(x),
                false => Err(keys.bad(name, format!("{name} is {x}, expected 0 to 1"))),
            }
        };
        let stable = [
            number("dynamic_multimask_stability_delta", 0.05)?,
            number("dynamic_multimask_stability_thresh", 0.98)?,
        ];
        let on = keys.opt_bool("dynamic_multimask_via_stability")?.unwrap_or(true);
        self.masks.second = Some(Second { stable: on.then_some(stable), ffn_layers });
        Ok(())
    }
}

impl Model for Sam2Config {
    fn facts(&self) -> Facts {
        Facts {
            family: FAMILY.name,
            task: Task::Segment,
            layers: self.blocks.len() as u64,
            context: self.masks.grid * self.masks.grid,
            vocab: 0,
            width: self.masks.width,
        }
    }

    fn build(&self, tensors: &Tensors<'_>, _context: u64) -> Result<Module> {
        self.image_embed(tensors)
    }

    fn networks(&self, tensors: &Tensors<'_>, _: u64) -> Result<Vec<(&'static str, Module)>> {
        let mut all = Vec::from([
            (IMAGE_EMBED, self.image_embed(tensors)?),
            (MASK, self.masks.module(tensors, false)?),
            (MASK_FROM_MASK, self.masks.module(tensors, true)?),
        ]);
        if let Some(video) = &self.video {
            // The makers' program reads the first nowhere; the others make a thing of a mask that somebody drew.
            tensors.inert(|name| {
                name == "no_memory_positional_encoding" || name.starts_with("mask_downsample.")
            });
            all.push((CONDITION, self.condition(tensors, video)?));
            all.push((TRACK, self.masks.track(tensors, TRACK)?));
            all.push((REMEMBER, self.remember(tensors, video)?));
        }
        Ok(all)
    }

    /// The blocks are of different widths: none can be left out.
    fn small(&self, _: &[u64]) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
