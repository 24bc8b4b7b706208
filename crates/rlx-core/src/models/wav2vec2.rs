//! Wav2Vec2 with a head for CTC (Baevski et al. 2020, arXiv:2006.11477, section 2; Graves et al. 2006
//! for the head): samples of a sound to a score of every token in every frame.
//!
//! D model   F feed-forward   H heads   E = D / H width of a head   V tokens   C channels of a convolution
//!
//! Convolutions turn samples into frames, one convolution over frames gives them their places, and layers
//! of attention follow. Checkpoints come in two layouts, and both are here. *Base*: the first
//! convolution alone has a norm, of each channel over the whole sound, and a layer's norms stand behind its
//! residual sums. *Large* ("stable layer norm"): every convolution has a norm over its channels, and a layer's
//! norms stand before its branches.
//!
//! The mask is 1 for samples of a sound and 0 for the padding behind it. Frames that reach into padding
//! are hidden from all others. In the large layout a sound then gives the same alone and in a batch. In
//! the base layout it does not, for padding is part of the first norm's mean: run each sound alone there.

use super::checkpoint::{Checkpoint, Source};
use super::encoder;
use super::family::Family;
use super::keys::Keys;
use super::model::{Facts, Model, Task};
use super::tensors::Tensors;
use super::transformers;
use crate::error::{Error, Result};
use crate::ir::hir::{EncoderAttention, Module, Tensor, Weight};
use crate::ops::{
    Binary, Cast, Constant, Conv, GroupNorm, Map, Mask, Reduce, Reduction, Reshape, Select, Slice,
    Transpose, Unary, Window, Zip,
};
use crate::profile::{Preset, Presets};
use crate::types::{BATCH, DType, Dim, Shape, Type};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// The symbol of the inputs' second axis: samples of the longest sound of a batch.
pub const SAMPLES: &str = "SAMPLES";

/// Convolutions that a model may have: the published ones have 7.
const CONVOLUTIONS_MAX: usize = 64;

/// The epsilon of norms between convolutions, which no key names.
const CONVOLUTION_EPS: f32 = 1e-5;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "wav2vec2",
    presets: Presets::of(Preset::Encoder),
    gguf: &[],
    transformers: &["wav2vec2"],
    open: |checkpoint| Ok(Box::new(Wav2Vec2Config::open(checkpoint)?)),
};

/// A convolution over samples, or over the frames of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameConv {
    /// C: channels that come out.
    pub channels: u64,
    /// Frames that one result is made of.
    pub kernel: u64,
    /// Frames from one result to the next.
    pub stride: u64,
}

/// Sizes and constants of one checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Wav2Vec2Config {
    /// From samples to frames, in their order.
    pub convolutions: Vec<FrameConv>,
    /// Whether these convolutions have biases.
    pub conv_bias: bool,
    /// Whether each of them has a norm over its channels; else the first alone has one, over time.
    pub norm_each: bool,
    /// What follows a convolution's norm, and the convolution that gives places.
    pub conv_act: Unary,
    /// Encoder layers.
    pub layers: u64,
    /// D.
    pub dim: u64,
    /// F.
    pub ffn_dim: u64,
    /// H.
    pub heads: u64,
    /// V.
    pub vocab: u64,
    /// Frames that the convolution for places sees.
    pub place_kernel: u64,
    /// Its groups of channels.
    pub place_groups: u64,
    /// Whether norms stand before a layer's branches; else behind its residual sums.
    pub pre_norm: bool,
    /// Added to the variance in norms of frames.
    pub eps: f32,
    /// What stands within the feed-forward.
    pub act: Unary,
}

/// Keys that concern training, pretraining, or heads other than that for CTC.
const INERT: &[&str] = &[
    "activation_dropout",
    "adapter_kernel_size",
    "adapter_stride",
    "apply_spec_augment",
    "classifier_proj_size",
    "codevector_dim",
    "contrastive_logits_temperature",
    "ctc_loss_reduction",
    "ctc_zero_infinity",
    "diversity_loss_weight",
    "feat_extract_dropout",
    "feat_proj_dropout",
    "feat_quantizer_dropout",
    "final_dropout",
    "freeze_feat_extract_train",
    "hidden_dropout",
    "layerdrop",
    "mask_channel_length",
    "mask_channel_min_space",
    "mask_channel_other",
    "mask_channel_prob",
    "mask_channel_selection",
    "mask_feature_length",
    "mask_feature_min_masks",
    "mask_feature_prob",
    "mask_time_length",
    "mask_time_min_masks",
    "mask_time_min_space",
    "mask_time_other",
    "mask_time_prob",
    "mask_time_selection",
    "no_mask_channel_overlap",
    "no_mask_time_overlap",
    "num_adapter_layers",
    "num_codevector_groups",
    "num_codevectors_per_group",
    "num_negatives",
    "output_hidden_size",
    "proj_codevector_dim",
    "tdnn_dilation",
    "tdnn_dim",
    "tdnn_kernel",
    "tie_word_embeddings",
    "use_weighted_layer_sum",
    "xvector_output_dim",
];

impl Wav2Vec2Config {
    /// Reads a checkpoint's configuration.
    ///
    /// # Errors
    /// `BadFile` naming the key that is missing, mistyped or does not fit another; `Unsupported` for a key
    /// or a value that this version does not know, among them adapters, and for a GGUF file.
    pub fn open(checkpoint: &Checkpoint<'_>) -> Result<Self> {
        let keys = checkpoint.keys()?;
        if matches!(checkpoint.source, Source::Gguf(_)) {
            let what = "a model that hears is not read from a GGUF file";
            return Err(keys.unsupported("block_count", what, "give its transformers folder"));
        }
        transformers::common(&keys)?;
        keys.inert(INERT);
        keys.neutral(&[
            ("add_adapter", 0.0, "adds convolutions behind the encoder"),
            ("conv_pos_batch_norm", 0.0, "puts a batch norm before the convolution for places"),
        ])?;
        const ADAPTER: &str = "adapter_attn_dim";
        if keys.has(ADAPTER) {
            let what = format!("{ADAPTER} is set: adapters of languages are not supported");
            return Err(keys.unsupported(ADAPTER, what, "use a model without adapters"));
        }
        const NORM: &str = "feat_extract_norm";
        let norm_each = match keys.opt_str(NORM)?.unwrap_or("group") {
            "group" => false,
            "layer" => true,
            other => {
                let what = format!("{NORM} `{other}` is not supported");
                return Err(keys.unsupported(NORM, what, "supported: group, layer"));
            }
        };
        let config = Wav2Vec2Config {
            convolutions: convolutions(&keys)?,
            conv_bias: keys.opt_bool("conv_bias")?.unwrap_or(false),
            norm_each,
            conv_act: transformers::activation(&keys, "feat_extract_activation", Unary::GeluErf)?,
            layers: keys.layers("num_hidden_layers")?,
            dim: keys.positive("hidden_size")?,
            ffn_dim: keys.positive("intermediate_size")?,
            heads: keys.positive("num_attention_heads")?,
            vocab: keys.positive("vocab_size")?,
            place_kernel: keys.opt_positive("num_conv_pos_embeddings")?.unwrap_or(128),
            place_groups: keys.opt_positive("num_conv_pos_embedding_groups")?.unwrap_or(16),
            pre_norm: keys.opt_bool("do_stable_layer_norm")?.unwrap_or(false),
            eps: keys.opt_f32("layer_norm_eps")?.unwrap_or(1e-5),
            act: transformers::activation(&keys, "hidden_act", Unary::GeluErf)?,
        };
        encoder::head_dim(&keys, "num_attention_heads", config.dim, config.heads)?;
        if !config.dim.is_multiple_of(config.place_groups) {
            let (groups, dim) = (config.place_groups, config.dim);
            let what = format!("{groups} groups of channels do not divide rows of {dim}");
            return Err(keys.bad("num_conv_pos_embedding_groups", what));
        }
        keys.finish()?;
        Ok(config)
    }

    /// Samples from one frame to the next, and samples that a frame is made of.
    pub fn frame(&self) -> (u64, u64) {
        // Reading the configuration saw that neither overflows.
        self.convolutions
            .iter()
            .fold((1, 1), |(stride, reach), c| (stride * c.stride, reach + stride * (c.kernel - 1)))
    }
}

/// The convolutions that three lists of a configuration give.
fn convolutions(keys: &Keys<'_>) -> Result<Vec<FrameConv>> {
    let list = |name: &str, usual: [u64; 7]| -> Result<Vec<u64>> {
        let list = keys.opt_u64s(name)?.unwrap_or_else(|| usual.to_vec());
        if list.is_empty() || list.len() > CONVOLUTIONS_MAX || list.contains(&0) {
            let what = format!("{name} is not a list of 1 to {CONVOLUTIONS_MAX} sizes above 0");
            return Err(keys.bad(name, what));
        }
        Ok(list)
    };
    let channels = list("conv_dim", [512; 7])?;
    let kernels = list("conv_kernel", [10, 3, 3, 3, 3, 2, 2])?;
    let strides = list("conv_stride", [5, 2, 2, 2, 2, 2, 2])?;
    for (name, list) in [("conv_kernel", &kernels), ("conv_stride", &strides)] {
        if list.len() != channels.len() {
            let (n, all) = (list.len(), channels.len());
            let what = format!("{name} has {n} numbers and conv_dim {all}; both are as many");
            return Err(keys.bad(name, what));
        }
    }
    const COUNT: &str = "num_feat_extract_layers";
    if let Some(n) = keys.opt_u64(COUNT)?.filter(|&n| n != channels.len() as u64) {
        let what = format!("{COUNT} is {n}, and conv_dim has {} numbers", channels.len());
        return Err(keys.bad(COUNT, what));
    }
    let (mut stride, mut reach) = (1u64, 1u64);
    for (&k, &s) in kernels.iter().zip(&strides) {
        let next = stride.checked_mul(k - 1).and_then(|n| n.checked_add(reach));
        let next = next.zip(stride.checked_mul(s)).filter(|(r, s)| *r.max(s) <= 1 << 31);
        (reach, stride) = next.ok_or_else(|| {
            keys.bad("conv_stride", "a frame would be made of more than 2^31 samples")
        })?;
    }
    let sizes = channels.into_iter().zip(kernels).zip(strides);
    Ok(sizes.map(|((channels, kernel), stride)| FrameConv { channels, kernel, stride }).collect())
}

impl Model for Wav2Vec2Config {
    fn facts(&self) -> Facts {
        Facts {
            family: FAMILY.name,
            task: Task::Transcribe,
            layers: self.layers,
            // Places are relative: no sound is too long.
            context: u64::from(u32::MAX),
            vocab: self.vocab,
            width: self.dim,
        }
    }

    fn small(&self, layers: &[u64]) -> Box<dyn Model> {
        Box::new(Wav2Vec2Config {
            layers: layers.len() as u64,
            ffn_dim: encoder::row(self.ffn_dim),
            vocab: encoder::row(self.vocab),
            ..self.clone()
        })
    }

    fn build(&self, tensors: &Tensors<'_>, _context: u64) -> Result<Module> {
        // What stood in for hidden frames, and what pretraining compared with, give none of the outputs.
        tensors.inert(|n| {
            n == "wav2vec2.masked_spec_embed"
                || n.starts_with("quantizer.")
                || n.starts_with("project_q.")
                || n.starts_with("project_hid.")
        });
        let mut m = Module::graph(FAMILY.name);
        let dims = Shape(vec![Dim::symbol(BATCH), Dim::symbol(SAMPLES)]);
        let sound = m.input("input_values", Type::tensor(DType::F32, dims.clone()));
        let mask = m.input("attention_mask", Type::tensor(DType::U32, dims));
        let (x, frames) = self.frames(&mut m, tensors, sound)?;
        let (real, mask) = self.mask(&mut m, mask, &frames);
        let mut b = Builder { m: &mut m, tensors, config: self };
        let mut x = b.projected(x)?;
        // Frames of padding are 0 before the convolution for places reaches them.
        let dims = Shape(vec![Dim::symbol(BATCH), frames, Dim::from(1u64)]);
        let kept = b.m.op(Reshape { dims }, &[real], "frame_mask_rows");
        let zero = b.m.op(Constant::scalar(DType::F32, 0.0)?, &[], "frame_mask_else");
        x = b.m.op(Select, &[kept, x, zero], "frames_kept");
        let places = b.places(x)?;
        x = b.m.add(x, places, "places_sum");
        if !self.pre_norm {
            x = b.norm(x, "encoder.layer_norm", self.dim, self.eps, "embd_norm")?;
        }
        b.m.tap("layer.embed", x);
        for i in 0..self.layers {
            x = b.layer(x, mask, i)?;
            b.m.tap(format!("layer.{i}"), x);
        }
        if self.pre_norm {
            x = b.norm(x, "encoder.layer_norm", self.dim, self.eps, "output_norm")?;
        }
        let head = tensors.linear_biased("lm_head", [self.vocab, self.dim], Some(true))?;
        let logits = m.linear(x, head, "lm_head");
        m.output("logits", logits);
        Ok(m)
    }
}

impl Wav2Vec2Config {
    /// Frames `[BATCH, C, FRAMES]` of samples `[BATCH, SAMPLES]`, and how many there are.
    fn frames(
        &self,
        m: &mut Module,
        tensors: &Tensors<'_>,
        sound: Tensor,
    ) -> Result<(Tensor, Dim)> {
        let mut frames = Dim::symbol(SAMPLES);
        let dims = Shape(vec![Dim::symbol(BATCH), Dim::from(1u64), frames.clone()]);
        let mut x = m.op(Reshape { dims }, &[sound], "samples");
        let mut channels = 1;
        for (i, c) in self.convolutions.iter().enumerate() {
            let name = format!("wav2vec2.feature_extractor.conv_layers.{i}");
            let label = format!("conv.{i}");
            let mut b = Builder { m, tensors, config: self };
            let w = b.weight(&format!("{name}.conv.weight"), &[c.channels, channels, c.kernel])?;
            let mut operands = vec![x, w];
            let bias = format!("{name}.conv.bias");
            match (tensors.has(&bias), self.conv_bias) {
                (true, true) | (false, true) => operands.push(b.weight(&bias, &[c.channels])?),
                (true, false) => {
                    let what = format!("there is a tensor {bias}, and conv_bias is false");
                    return Err(Error::bad_file(what)
                        .hint("use the config.json that belongs to the weights"));
                }
                (false, false) => {}
            }
            let window = Window::new(1).stride(&[c.stride]);
            frames = window.outputs("conv", &[frames], &[c.kernel])?.swap_remove(0);
            x = b.m.op(Conv { window, groups: 1, bias: self.conv_bias }, &operands, &label);
            let norm = format!("{name}.layer_norm");
            if self.norm_each {
                // Norms are over the last axis, and channels are the first of a frame's.
                let turn = |b: &mut Builder<'_, '_>, x, label: String| {
                    b.m.op(Transpose { perm: vec![0, 2, 1] }, &[x], &label)
                };
                x = turn(&mut b, x, format!("{label}_rows"));
                let (scale, shift) = b.norm_weights(&norm, c.channels)?;
                let label = format!("{label}_norm");
                x = b.m.layer_norm(x, scale, Some(shift), CONVOLUTION_EPS, &label);
                x = turn(&mut b, x, format!("{label}_channels"));
            } else if i == 0 {
                let scale = b.weight(&format!("{norm}.weight"), &[c.channels])?;
                let shift = b.weight(&format!("{norm}.bias"), &[c.channels])?;
                let op = GroupNorm { groups: c.channels, eps: CONVOLUTION_EPS };
                x = b.m.op(op, &[x, scale, shift], &format!("{label}_norm"));
            }
            x = m.op(Map { f: self.conv_act }, &[x], &format!("{label}_act"));
            channels = c.channels;
        }
        Ok((x, frames))
    }

    /// Which frames are made of real samples alone, bool `[BATCH, FRAMES]`, and the same as 1 and 0 in f32.
    ///
    /// Padding stands behind a sound, so a frame is real where its last sample is.
    fn mask(&self, m: &mut Module, mask: Tensor, frames: &Dim) -> (Tensor, Tensor) {
        let (stride, reach) = self.frame();
        let last = Slice {
            axis: 1,
            start: Dim::from(reach - 1),
            len: frames.clone(),
            step: stride as i64,
        };
        let last = m.op(last, &[mask], "frame_mask");
        let real = m.op(Cast { to: DType::BOOL }, &[last], "frame_mask_real");
        (real, m.op(Cast { to: DType::F32 }, &[real], "frame_mask_f32"))
    }
}

/// What every part of the network is built with.
struct Builder<'m, 't> {
    m: &'m mut Module,
    tensors: &'t Tensors<'t>,
    config: &'t Wav2Vec2Config,
}

impl Builder<'_, '_> {
    /// A tensor in f32: convolutions take weights of their operand's type.
    fn weight(&mut self, name: &str, dims: &[u64]) -> Result<Tensor> {
        let weight = self.tensors.weight(name, dims)?;
        let dtype = weight.ty.dtype;
        let w = self.m.weight(weight);
        Ok(match dtype {
            DType::F32 => w,
            _ => self.m.op(Cast { to: DType::F32 }, &[w], &format!("{name}_f32")),
        })
    }

    /// Scale and bias of a norm.
    fn norm_weights(&mut self, name: &str, dim: u64) -> Result<(Weight, Weight)> {
        let part = |part: &str| self.tensors.weight(&format!("{name}.{part}"), &[dim]);
        Ok((part("weight")?, part("bias")?))
    }

    fn norm(&mut self, x: Tensor, name: &str, dim: u64, eps: f32, label: &str) -> Result<Tensor> {
        let (scale, bias) = self.norm_weights(&format!("wav2vec2.{name}"), dim)?;
        Ok(self.m.layer_norm(x, scale, Some(bias), eps, label))
    }

    /// Rows `[BATCH, FRAMES, D]` of what the convolutions give.
    fn projected(&mut self, x: Tensor) -> Result<Tensor> {
        let c = self.config;
        let channels = c.convolutions.last().map_or(1, |c| c.channels);
        let x = self.m.op(Transpose { perm: vec![0, 2, 1] }, &[x], "features");
        let x = self.norm(x, "feature_projection.layer_norm", channels, c.eps, "features_norm")?;
        let name = "wav2vec2.feature_projection.projection";
        let w = self.tensors.linear_biased(name, [c.dim, channels], Some(true))?;
        Ok(self.m.linear(x, w, "features_projection"))
    }

    /// What tells frames their places: a convolution of groups of channels, as long as its input. Of an
    /// even kernel more than half stands before a frame.
    fn places(&mut self, x: Tensor) -> Result<Tensor> {
        let c = self.config;
        let x = self.m.op(Transpose { perm: vec![0, 2, 1] }, &[x], "places_channels");
        let w = self.place_weight()?;
        let bias = self.weight("wav2vec2.encoder.pos_conv_embed.conv.bias", &[c.dim])?;
        let (low, high) = (c.place_kernel / 2, (c.place_kernel - 1) / 2);
        let window = Window::new(1).pad(&[low], &[high]);
        let conv = Conv { window, groups: c.place_groups, bias: true };
        let y = self.m.op(conv, &[x, w, bias], "places_conv");
        let y = self.m.op(Map { f: c.conv_act }, &[y], "places_act");
        Ok(self.m.op(Transpose { perm: vec![0, 2, 1] }, &[y], "places"))
    }

    /// The kernel, which a checkpoint has as lengths `g` and directions `v` (weight norm, arXiv:1602.07868):
    /// `g v / |v|`, the length being that of all channels at one place of the kernel.
    fn place_weight(&mut self) -> Result<Tensor> {
        let c = self.config;
        let conv = "wav2vec2.encoder.pos_conv_embed.conv";
        let old = format!("{conv}.weight_g");
        let [g, v] = match self.tensors.has(&old) {
            true => [old, format!("{conv}.weight_v")],
            false => [0, 1].map(|i| format!("{conv}.parametrizations.weight.original{i}")),
        };
        let g = self.weight(&g, &[1, 1, c.place_kernel])?;
        let v = self.weight(&v, &[c.dim, c.dim / c.place_groups, c.place_kernel])?;
        let zip = |m: &mut Module, f, of: [Tensor; 2], label| m.op(Zip { f }, &of, label);
        let squares = zip(self.m, Binary::Mul, [v, v], "places_squares");
        let sum = Reduce { f: Reduction::Sum, axes: vec![0, 1], keep: true };
        let sum = self.m.op(sum, &[squares], "places_sum_of_squares");
        let length = self.m.op(Map { f: Unary::Sqrt }, &[sum], "places_length");
        let by = zip(self.m, Binary::Div, [g, length], "places_scale");
        Ok(zip(self.m, Binary::Mul, [v, by], "places_weight"))
    }

    /// A layer of attention and feed-forward.
    fn layer(&mut self, x: Tensor, mask: Tensor, i: u64) -> Result<Tensor> {
        let c = self.config;
        let (own, label) = (format!("encoder.layers.{i}"), format!("blk.{i}"));
        let linear = |part: &str, out, input| {
            let name = format!("wav2vec2.{own}.{part}");
            self.tensors.linear_biased(&name, [out, input], Some(true))
        };
        let square = |part: &str| linear(&format!("attention.{part}_proj"), c.dim, c.dim);
        let projections = [square("q")?, square("k")?, square("v")?, square("out")?];
        let ffn = [
            linear("feed_forward.intermediate_dense", c.ffn_dim, c.dim)?,
            linear("feed_forward.output_dense", c.dim, c.ffn_dim)?,
        ];
        let attention = EncoderAttention {
            heads: c.heads as usize,
            kv_heads: c.heads as usize,
            head_dim: (c.dim / c.heads) as usize,
            bias: true,
            mask: Mask::Custom,
            scale: None,
            softcap: None,
        };
        let norms = [format!("{own}.layer_norm"), format!("{own}.final_layer_norm")];
        let [attn_norm, ffn_norm] = [format!("{label}.attn_norm"), format!("{label}.ffn_norm")];
        let norm = |b: &mut Self, x: Tensor, at: usize, before: bool, label: &str| {
            if before == c.pre_norm { b.norm(x, &norms[at], c.dim, c.eps, label) } else { Ok(x) }
        };
        let a = norm(self, x, 0, true, &attn_norm)?;
        let a = self.m.encoder_attention(
            a,
            projections,
            Some(mask),
            attention,
            &format!("{label}.attn"),
        );
        let x = self.m.add(a, x, &format!("{label}.attn_residual"));
        let x = norm(self, x, 0, false, &attn_norm)?;
        let f = norm(self, x, 1, true, &ffn_norm)?;
        let f = self.m.mlp(f, ffn, c.act, &format!("{label}.ffn"));
        let x = self.m.add(f, x, &format!("{label}.ffn_residual"));
        norm(self, x, 1, false, &ffn_norm)
    }
}
