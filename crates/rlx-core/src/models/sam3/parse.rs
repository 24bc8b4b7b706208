//! What a configuration says: `config.json` of a detector alone, or of a published folder, whose `detector_config` it
//! is beside that of the model which follows things through a film.

use super::super::checkpoint::Checkpoint;
use super::super::keys::Keys;
use super::super::sam::{
    EDGE_MOST, REPEATED, WIDTH_MOST, at_most, both, divides, part, same, width,
};
use super::super::transformers;
use super::{Sam3Config, Sam3Image, Sam3Layers, Sam3Text};
use crate::error::Result;
use crate::ops::Unary;
use alloc::format;
use alloc::vec::Vec;

/// What a published folder says of following things through a film.
const FILM: &[&str] = &[
    "assoc_iou_thresh",
    "decrease_trk_keep_alive_for_empty_masklets",
    "det_nms_thresh",
    "fill_hole_area",
    "high_conf_thresh",
    "high_iou_thresh",
    "hotstart_delay",
    "hotstart_dup_thresh",
    "hotstart_unmatch_thresh",
    "init_trk_keep_alive",
    "low_res_mask_size",
    "max_num_objects",
    "max_trk_keep_alive",
    "min_trk_keep_alive",
    "new_det_thresh",
    "recondition_every_nth_frame",
    "recondition_on_trk_masks",
    "score_threshold_detection",
    "suppress_overlapping_based_on_recent_occlusion_threshold",
    "suppress_unmatched_only_within_hotstart",
    "tracker_config",
    "trk_assoc_iou_thresh",
];

/// The scales of features, of which the last is dropped.
const SCALES: [f64; 4] = [4.0, 2.0, 1.0, 0.5];

/// Things found, and places of a box along an edge, at most.
const QUERIES_MOST: u64 = 4096;
const ROI_MOST: u64 = 64;

/// The number of groups of the norms before masks.
pub(super) const GROUPS: u64 = 8;

impl Sam3Config {
    /// Reads a checkpoint's configuration.
    ///
    /// # Errors
    /// `BadFile` naming the key that is missing, mistyped, 0, or no match for another; `Unsupported` for a key or
    /// a value that this version does not know.
    pub fn open(checkpoint: &Checkpoint<'_>) -> Result<Self> {
        let keys = checkpoint.keys()?;
        transformers::common(&keys)?;
        keys.inert(REPEATED);
        const DETECTOR: &str = "detector_config";
        let config = match keys.has(DETECTOR) {
            true => {
                keys.inert(FILM);
                Self::detector(&part(&keys, DETECTOR)?, "detector_model.")?
            }
            false => Self::detector(&keys, "")?,
        };
        keys.finish()?;
        Ok(config)
    }

    fn detector(keys: &Keys<'_>, prefix: &'static str) -> Result<Self> {
        let vision = part(keys, "vision_config")?;
        let image = Sam3Image::read(&part(&vision, "backbone_config")?)?;
        let width = pyramid(&vision)?;
        if !width.is_multiple_of(GROUPS) {
            let what = format!("fpn_hidden_size is {width}, no multiple of {GROUPS}");
            return Err(vision.bad("fpn_hidden_size", what));
        }
        let text = Sam3Text::read(&part(keys, "text_config")?)?;
        let geometry = part(keys, "geometry_encoder_config")?;
        let roi = at_most(&geometry, "roi_size", geometry.positive("roi_size")?, ROI_MOST)?;
        let decoder = part(keys, "detr_decoder_config")?;
        let queries =
            at_most(&decoder, "num_queries", decoder.positive("num_queries")?, QUERIES_MOST)?;
        decoder.neutral(&[("use_presence_token", 1.0, "leaves out whether there is any")])?;
        if let Some(mode) = decoder.opt_str("box_rpb_mode")?.filter(|&mode| mode != "log") {
            let what = format!("box_rpb_mode {mode} is not supported");
            return Err(decoder.unsupported("box_rpb_mode", what, "supported: log"));
        }
        let masks = part(keys, "mask_decoder_config")?;
        // Features of three sizes are joined in two stages; the library makes weights for more and reads them never.
        let mask_stages = masks.layers("num_upsampling_stages")?;
        if mask_stages < 2 {
            let what = "num_upsampling_stages is less than 2";
            return Err(masks.bad("num_upsampling_stages", what));
        }
        // Norms have PyTorch's own number.
        masks.inert(&["layer_norm_eps"]);
        Ok(Sam3Config {
            prefix,
            image,
            text,
            width,
            geometry: Sam3Layers::read(&geometry, width)?,
            roi,
            encoder: Sam3Layers::read(&part(keys, "detr_encoder_config")?, width)?,
            decoder: Sam3Layers::read(&decoder, width)?,
            queries,
            mask_heads: heads(&masks, width)?,
            mask_stages,
        })
    }
}

/// Heads of a part that must be C wide.
fn heads(keys: &Keys<'_>, c: u64) -> Result<u64> {
    same(keys, "hidden_size", width(keys, "hidden_size")?, c, "fpn_hidden_size of vision_config")?;
    let heads = keys.positive("num_attention_heads")?;
    divides(keys, "num_attention_heads", heads, c, "hidden_size")?;
    Ok(heads)
}

/// Reads what makes the image's features finer: their width.
fn pyramid(keys: &Keys<'_>) -> Result<u64> {
    // Sizes that follow from others, and what no layer of this part has.
    keys.inert(&["backbone_feature_sizes", "hidden_act", "layer_norm_eps"]);
    keys.neutral(&[
        ("fpn_kernel_size", 2.0, "makes features finer in another way"),
        ("fpn_stride", 2.0, "makes features finer in another way"),
        ("num_feature_levels", 3.0, "uses features of other sizes"),
    ])?;
    if let Some(scales) = keys.opt_f64s("scale_factors")?.filter(|list| *list != SCALES) {
        let what = format!("scale_factors is {scales:?}, and {SCALES:?} is what is supported");
        return Err(keys.unsupported("scale_factors", what, "use a published SAM 3"));
    }
    width(keys, "fpn_hidden_size")
}

impl Sam3Image {
    fn read(keys: &Keys<'_>) -> Result<Self> {
        // The library makes no layer that reads the first; the others are of training.
        keys.inert(&["layer_scale_init_value", "hidden_dropout"]);
        keys.neutral(&[
            ("num_channels", 3.0, "takes images that are not red, green and blue"),
            ("qkv_bias", 1.0, "leaves out biases"),
        ])?;
        let layers = keys.layers("num_hidden_layers")?;
        let dim = width(keys, "hidden_size")?;
        let heads = keys.positive("num_attention_heads")?;
        let head = divides(keys, "num_attention_heads", heads, dim, "hidden_size")?;
        if !head.is_multiple_of(4) {
            let what = format!("heads are {head} wide, and positions turn them in fours");
            return Err(keys.bad("num_attention_heads", what));
        }
        let (size, patch) = (both(keys, "image_size", 1008)?, both(keys, "patch_size", 14)?);
        let (first, window) =
            (both(keys, "pretrain_image_size", 336)?, keys.positive("window_size")?);
        if size == 0 || patch == 0 || first < patch {
            let what = "image_size or patch_size is 0, or pretrain_image_size less than a patch";
            return Err(keys.bad("patch_size", what));
        }
        let grid = divides(keys, "patch_size", patch, size, "image_size")?;
        Ok(Sam3Image {
            global: global(keys, layers)?,
            dim,
            ffn_dim: width(keys, "intermediate_size")?,
            heads,
            size,
            patch,
            grid: at_most(keys, "image_size / patch_size", grid, EDGE_MOST)?,
            table: at_most(keys, "pretrain_image_size / patch_size", first / patch, EDGE_MOST)?,
            window: at_most(keys, "window_size", window, EDGE_MOST)?,
            theta: theta(keys)?,
            eps: keys.opt_f32("layer_norm_eps")?.unwrap_or(1e-6),
            act: transformers::activation(keys, "hidden_act", Unary::GeluErf)?,
        })
    }
}

/// Which layers see the whole grid.
fn global(keys: &Keys<'_>, layers: u64) -> Result<Vec<bool>> {
    const GLOBAL: &str = "global_attn_indexes";
    let mut global = alloc::vec![false; layers as usize];
    let named = keys.opt_u64s(GLOBAL)?;
    for at in named.clone().unwrap_or(Vec::from([7, 15, 23, 31])) {
        match usize::try_from(at).ok().and_then(|at| global.get_mut(at)) {
            Some(layer) => *layer = true,
            None if named.is_none() => {}
            None => {
                let what = format!("{GLOBAL} names layer {at}, and there are {layers}");
                return Err(keys.bad(GLOBAL, what));
            }
        }
    }
    Ok(global)
}

/// The base of the rotary frequencies, in the library's form or that of the first files.
fn theta(keys: &Keys<'_>) -> Result<f32> {
    const USUAL: f32 = 10000.0;
    let old = keys.opt_above_zero("rope_theta")?;
    let Some(rope) = keys.object("rope_parameters")? else { return Ok(old.unwrap_or(USUAL)) };
    if let Some(kind) = rope.opt_str("rope_type")?.filter(|&kind| kind != "axial") {
        let what = format!("rope_type {kind} is not supported");
        return Err(rope.unsupported("rope_type", what, "supported: axial"));
    }
    Ok(rope.opt_above_zero("rope_theta")?.or(old).unwrap_or(USUAL))
}

impl Sam3Text {
    fn read(keys: &Keys<'_>) -> Result<Self> {
        // The width of a vector of the whole text, which nothing asks for.
        keys.inert(&["projection_dim"]);
        let dim = width(keys, "hidden_size")?;
        let heads = keys.positive("num_attention_heads")?;
        divides(keys, "num_attention_heads", heads, dim, "hidden_size")?;
        let act = match keys.opt_str("hidden_act")? {
            // What one means without a name depends on who reads it.
            None => return Err(keys.bad("hidden_act", "hidden_act of text_config is missing")),
            Some("quick_gelu") => Unary::QuickGelu,
            Some(_) => transformers::activation(keys, "hidden_act", Unary::GeluErf)?,
        };
        let context = keys.positive("max_position_embeddings")?;
        Ok(Sam3Text {
            layers: keys.layers("num_hidden_layers")?,
            dim,
            ffn_dim: width(keys, "intermediate_size")?,
            heads,
            vocab: width(keys, "vocab_size")?,
            context: at_most(keys, "max_position_embeddings", context, WIDTH_MOST)?,
            eps: keys.opt_f32("layer_norm_eps")?.unwrap_or(1e-5),
            act,
        })
    }
}

impl Sam3Layers {
    fn read(keys: &Keys<'_>, c: u64) -> Result<Self> {
        // Norms have PyTorch's own number.
        keys.inert(&["layer_norm_eps", "hidden_dropout"]);
        Ok(Sam3Layers {
            heads: heads(keys, c)?,
            layers: keys.layers("num_layers")?,
            ffn_dim: width(keys, "intermediate_size")?,
            act: transformers::activation(keys, "hidden_act", Unary::Relu)?,
        })
    }
}
