//! What a configuration says of following things through a film: `model_type` `sam2_video`.

use super::super::keys::Keys;
use super::super::sam::{EDGE_MOST, WIDTH_MOST, at_most, divides, same, width};
use super::super::transformers;
use super::both;
use crate::error::Result;
use crate::ops::Unary;
use alloc::format;

/// No thing has more memories, and no more pointers: many times what is published, which is 7 and 16.
const MEMORIES_MOST: u64 = 64;
const POINTERS_MOST: u64 = 256;

/// Sizes and constants of the memory of a model that follows things through films.
#[derive(Clone, Debug, PartialEq)]
pub struct Sam2Video {
    /// K: memories of a thing, that of the frame where it was shown among them.
    pub memories: u64,
    /// P: pointers of a thing, likewise.
    pub pointers: u64,
    /// M: width of a memory's places.
    pub width: u64,
    /// Attention to memories.
    pub attention: MemoryAttention,
    /// What makes memories.
    pub encoder: MemoryEncoder,
    /// Whether pointers have positions in time.
    pub pointer_times: bool,
    /// Whether memories say that the thing is not in sight.
    pub occlusion: bool,
    /// When the best of several masks is taken.
    pub several: Several,
}

/// Sizes and constants of the attention to memories.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryAttention {
    /// Its layers.
    pub layers: u64,
    /// Its heads.
    pub heads: u64,
    /// Width of its heads together.
    pub inner: u64,
    /// Width within its feed-forward.
    pub ffn_dim: u64,
    /// What stands within its feed-forward.
    pub act: Unary,
    /// Base of the rotary positions.
    pub theta: f32,
}

/// Sizes and constants of what makes memories.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryEncoder {
    /// Multiplies a mask of numbers from 0 to 1, and is added to it.
    pub mask: [f32; 2],
    /// Convolutions that make a mask as coarse as the grid.
    pub mask_layers: u64,
    /// Pixels along an edge of their windows, pixels between places, and zeros at each end.
    pub mask_window: [u64; 3],
    /// What stands behind each of them.
    pub mask_act: Unary,
    /// Blocks that follow (ConvNeXt, arXiv:2201.03545).
    pub layers: u64,
    /// Places along an edge of their windows, an odd number.
    pub kernel: u64,
    /// Width within them.
    pub ffn_dim: u64,
    /// What stands within them.
    pub act: Unary,
}

/// For which prompts the best of several masks is taken, and not the one mask of a prompt that means one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Several {
    /// Whether for any.
    pub on: bool,
    /// Whether for frames without a prompt, too.
    pub tracked: bool,
    /// Least and most points of such a prompt; a box has two.
    pub points: [u64; 2],
}

impl Several {
    /// Whether the best of several masks is taken for a prompt of so many points, on the frame where the thing is
    /// shown, or not.
    pub fn of(&self, points: u64, shown: bool) -> bool {
        self.on && (shown || self.tracked) && (self.points[0]..=self.points[1]).contains(&points)
    }
}

/// What is for training alone, or says how to choose among frames where a thing is shown: here there is one.
const INERT: &[&str] = &[
    "max_cond_frame_num",
    "memory_attention_dropout",
    "memory_attention_rope_dropout",
    "memory_fuser_layer_scale_init_value",
];

impl Sam2Video {
    /// Reads the keys of a model that is `c` wide, for images of `image` pixels along an edge and a grid of `grid`
    /// places.
    pub(super) fn open(keys: &Keys<'_>, c: u64, [image, grid]: [u64; 2]) -> Result<Self> {
        keys.inert(INERT);
        same(keys, "image_size", both(keys, "image_size", 1024)?, image, "that of vision_config")?;
        // Masks are made a fourth as fine as the image and compared with it at its own size.
        same(keys, "image_size", image, 16 * grid, "16 times the grid")?;
        let number = |name: &str, usual: u64, most: u64| -> Result<u64> {
            at_most(keys, name, keys.opt_positive(name)?.unwrap_or(usual), most)
        };
        const MEMORY: &str = "memory_encoder_output_channels";
        let memory = number(MEMORY, 64, WIDTH_MOST)?;
        divides(keys, MEMORY, memory, c, "the width of vision_config")?;
        if !memory.is_multiple_of(4) {
            // Positions are a sine and a cosine along each axis.
            return Err(keys.bad(MEMORY, format!("{MEMORY} is {memory}, no multiple of 4")));
        }
        const POINTERS: &str = "max_object_pointers_in_encoder";
        let pointers = number(POINTERS, 16, POINTERS_MOST)?;
        if pointers < 2 {
            let what = format!("{POINTERS} is {pointers}: times are parts of one less than it");
            return Err(keys.bad(POINTERS, what));
        }
        for name in [
            "memory_attention_hidden_size",
            "memory_encoder_hidden_size",
            "memory_fuser_embed_dim",
            "mask_downsampler_embed_dim",
        ] {
            same(keys, name, width(keys, name)?, c, "the width of vision_config")?;
        }
        let flag = |name: &str| keys.opt_bool(name).map(|on| on.unwrap_or(true));
        let count = |name: &str, usual: u64| keys.opt_u64(name).map(|n| n.unwrap_or(usual));
        Ok(Sam2Video {
            memories: number("num_maskmem", 7, MEMORIES_MOST)?,
            pointers,
            width: memory,
            attention: MemoryAttention::open(keys, c, grid)?,
            encoder: MemoryEncoder::open(keys, image, grid)?,
            pointer_times: flag("enable_temporal_pos_encoding_for_object_pointers")?,
            occlusion: flag("enable_occlusion_spatial_embedding")?,
            several: Several {
                on: flag("multimask_output_in_sam")?,
                tracked: flag("multimask_output_for_tracking")?,
                points: [count("multimask_min_pt_num", 0)?, count("multimask_max_pt_num", 1)?],
            },
        })
    }
}

impl MemoryAttention {
    fn open(keys: &Keys<'_>, c: u64, grid: u64) -> Result<Self> {
        const RATE: &str = "memory_attention_downsample_rate";
        const HEADS: &str = "memory_attention_num_attention_heads";
        const SIZES: &str = "memory_attention_rope_feat_sizes";
        let inner = divides(keys, RATE, keys.opt_positive(RATE)?.unwrap_or(1), c, "the width")?;
        let heads = keys.opt_positive(HEADS)?.unwrap_or(1);
        let head = divides(keys, HEADS, heads, inner, "the width of attention")?;
        if !head.is_multiple_of(4) {
            // Half of a head turns with the column and half with the row, two numbers at a time.
            return Err(keys.bad(HEADS, format!("{HEADS} makes heads of {head}, no multiple of 4")));
        }
        if keys.opt_u64s(SIZES)?.is_some_and(|sizes| sizes != [grid, grid]) {
            return Err(keys.bad(SIZES, format!("{SIZES} is not twice {grid}, the grid's edge")));
        }
        // Version 5 of transformers has an object where earlier ones had a key.
        let mut theta = keys.opt_above_zero("memory_attention_rope_theta")?;
        if let Some(rope) = keys.object("rope_parameters")? {
            if let Some(kind) =
                rope.opt_str("rope_type")?.filter(|k| !["axial", "default"].contains(k))
            {
                let what = format!("rope_type `{kind}` is not supported");
                return Err(rope.unsupported("rope_type", what, "supported: axial"));
            }
            theta = rope.opt_above_zero("rope_theta")?.or(theta);
        }
        let act = "memory_attention_feed_forward_hidden_act";
        Ok(MemoryAttention {
            layers: keys.layers("memory_attention_num_layers")?,
            heads,
            inner,
            ffn_dim: width(keys, "memory_attention_feed_forward_hidden_size")?,
            act: transformers::activation(keys, act, Unary::Relu)?,
            theta: theta.unwrap_or(10_000.0),
        })
    }
}

impl MemoryEncoder {
    fn open(keys: &Keys<'_>, image: u64, grid: u64) -> Result<Self> {
        const TOTAL: &str = "mask_downsampler_total_stride";
        const STRIDE: &str = "mask_downsampler_stride";
        const KERNEL: &str = "mask_downsampler_kernel_size";
        const PADDING: &str = "mask_downsampler_padding";
        let of = |name: &str, usual: u64| -> Result<u64> {
            at_most(keys, name, keys.opt_u64(name)?.unwrap_or(usual), EDGE_MOST)
        };
        let total = of(TOTAL, 16)?;
        same(keys, TOTAL, total, image / grid, "the image is so many times as fine as the grid")?;
        let (kernel, stride, padding) = (of(KERNEL, 3)?, of(STRIDE, 2)?, of(PADDING, 1)?);
        let mut coarse = (1, 0);
        while stride > 1 && coarse.0 < total {
            coarse = (coarse.0 * stride, coarse.1 + 1);
        }
        if coarse.0 != total {
            let what = format!("{STRIDE} is {stride}: no power of it is {total}");
            return Err(keys.bad(STRIDE, what));
        }
        // Each layer makes its image as many times coarser as its stride says, to the pixel.
        if kernel == 0 || !(kernel..kernel + stride).contains(&(2 * padding + stride)) {
            let what = format!(
                "{KERNEL} {kernel} with {PADDING} {padding} does not cover an image in steps of {stride}"
            );
            return Err(keys.unsupported(KERNEL, what, "use a published model"));
        }
        const FUSER: &str = "memory_fuser_kernel_size";
        let (window, around) = (of(FUSER, 7)?, of("memory_fuser_padding", 3)?);
        if 2 * around + 1 != window {
            let what = format!("memory_fuser_padding {around} is not half of a kernel of {window}");
            return Err(keys.unsupported("memory_fuser_padding", what, "use a published model"));
        }
        let factor = |name: &str, usual: f32| keys.opt_f32(name).map(|x| x.unwrap_or(usual));
        let act = |name: &str| transformers::activation(keys, name, Unary::GeluErf);
        Ok(MemoryEncoder {
            mask: [
                factor("sigmoid_scale_for_mem_enc", 20.0)?,
                factor("sigmoid_bias_for_mem_enc", -10.0)?,
            ],
            mask_layers: coarse.1,
            mask_window: [kernel, stride, padding],
            mask_act: act("mask_downsampler_hidden_act")?,
            layers: keys.layers("memory_fuser_num_layers")?,
            kernel: window,
            ffn_dim: width(keys, "memory_fuser_intermediate_dim")?,
            act: act("memory_fuser_hidden_act")?,
        })
    }

    /// Channels in front of a layer of the mask, and behind it: each layer has as many more as its places are fewer.
    pub(super) fn mask_channels(&self, layer: u64) -> [u64; 2] {
        let by = self.mask_window[1] * self.mask_window[1];
        let before = (0..layer).fold(1, |n, _| n * by);
        [before, before * by]
    }
}
