//! FLUX.2's autoencoder: images to latents and back (Rombach et al. 2022, arXiv:2112.10752, section 3.1).
//!
//! L channels of the bottleneck   C = 4 L channels of a latent, which is a patch of 2 by 2 of the bottleneck
//!
//! Differs from the paper: latents are normalised by stored statistics of their C channels, which stand for the one
//! factor of older models.
//!
//! Entries, with `HEIGHT` by `WIDTH` latents; rows of latents are those of the transformer, whose `[BATCH,
//! HEIGHT * WIDTH, C]` are the same bytes:
//! - `decode_image`: `latents [BATCH, HEIGHT, WIDTH, C]` to `image [BATCH, 3, scale * HEIGHT, scale * WIDTH]`, with
//!   colours from -1 to 1, which may be exceeded a little.
//! - `encode_image`, where the file has an encoder: back, to the `latents` of the distribution's mean, to that
//!   mean `mean` and its `logvar`.

use super::checkpoint::Checkpoint;
use super::diffusers::{self, Net, fixed};
use super::family::Family;
use super::keys::Keys;
use super::model::{Facts, Model, Task};
use super::tensors::Tensors;
use crate::error::Result;
use crate::ir::hir::{Module, Tensor};
use crate::ops::{Binary, Clamp, GroupNorm, Sdpa, Unary, Window};
use crate::profile::{Preset, Presets};
use crate::types::{BATCH, Dim};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "flux2_vae",
    presets: Presets::of(Preset::Flux2),
    gguf: &[],
    transformers: &["AutoencoderKLFlux2"],
    open: |checkpoint| Ok(Box::new(Flux2VaeConfig::open(checkpoint)?)),
};

/// The entry that makes images of latents.
pub const DECODE_IMAGE: &str = "decode_image";
/// The entry that makes latents of images.
pub const ENCODE_IMAGE: &str = "encode_image";

/// Rows and columns of latents.
const HEIGHT: &str = "HEIGHT";
const WIDTH: &str = "WIDTH";
/// Elements of the bottleneck along an edge of a latent.
const PATCH: u64 = 2;
/// Added to the variance in group norms: the same in every checkpoint, and in no configuration.
const EPS: f32 = 1e-6;
/// Levels and layers of a level that a damaged file may not exceed, and channels.
const MOST_LEVELS: usize = 8;
const MOST_LAYERS: u64 = 64;
const MOST_CHANNELS: u64 = 1 << 16;

/// Sizes and constants of one checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Flux2VaeConfig {
    /// Colours of an image that is given.
    pub in_channels: u64,
    /// Colours of an image that is made.
    pub out_channels: u64,
    /// L.
    pub latent_channels: u64,
    /// Channels of the encoder's levels, the first one having the image's size.
    pub encoder: Vec<u64>,
    /// The same of the decoder, whose levels run from the last one to the first.
    pub decoder: Vec<u64>,
    /// Layers of a level of the encoder; the decoder has one more.
    pub layers: u64,
    /// Groups of a group norm.
    pub groups: u64,
    /// Whether there is attention in the middle.
    pub attention: bool,
    /// Whether a product of channels stands behind the encoder, and before the decoder.
    pub quant: [bool; 2],
    /// Added to the stored variance of latents.
    pub norm_eps: f32,
}

impl Flux2VaeConfig {
    /// Reads a checkpoint's configuration.
    ///
    /// # Errors
    /// `BadFile` naming the key that is missing, mistyped, 0, or at odds with another; `Unsupported` for a key or
    /// a value that this version does not know.
    pub fn open(checkpoint: &Checkpoint<'_>) -> Result<Self> {
        let keys = checkpoint.keys()?;
        diffusers::common(&keys);
        // The size of images in training, and how fast the statistics followed them then.
        keys.inert(&["sample_size", "batch_norm_momentum"]);
        if let Some(act) = keys.opt_str("act_fn")?.filter(|&act| act != "silu") {
            let what = format!("act_fn `{act}` is not supported");
            return Err(keys.unsupported("act_fn", what, "supported: silu"));
        }
        if keys.opt_u64s("patch_size")?.is_some_and(|patch| patch != [PATCH, PATCH]) {
            let what = "patch_size is not [2, 2]: latents would be other patches";
            return Err(keys.unsupported("patch_size", what, "supported: [2, 2]"));
        }
        const CHANNELS: &str = "block_out_channels";
        let groups = keys.opt_positive("norm_num_groups")?.unwrap_or(32);
        let encoder = channels(&keys, CHANNELS, groups)?;
        let Some(encoder) = encoder else {
            return Err(keys.bad(CHANNELS, format!("{CHANNELS} is missing")));
        };
        let decoder = channels(&keys, "decoder_block_out_channels", groups)?;
        let decoder = decoder.unwrap_or_else(|| encoder.clone());
        for (key, levels, known) in [
            ("down_block_types", encoder.len(), "DownEncoderBlock2D"),
            ("up_block_types", decoder.len(), "UpDecoderBlock2D"),
        ] {
            let kinds = keys.opt_strs(key)?.unwrap_or_else(|| vec![known; levels]);
            keys.one_each(key, kinds.len(), levels as u64)?;
            if let Some(other) = kinds.iter().find(|&&kind| kind != known) {
                let what = format!("{key} has `{other}`, which is not supported");
                return Err(keys.unsupported(key, what, &format!("supported: {known}")));
            }
        }
        if encoder.len() != decoder.len() {
            let what = format!(
                "the encoder has {} levels and the decoder {}: images would come back in another size",
                encoder.len(),
                decoder.len()
            );
            return Err(keys.bad("decoder_block_out_channels", what));
        }
        let size = |key: &str, usual: u64, most: u64| match keys.opt_positive(key)? {
            Some(n) if n > most => {
                Err(keys.bad(key, format!("{key} is {n}, at most {most} is read")))
            }
            n => Ok(n.unwrap_or(usual)),
        };
        let is = |key: &str| keys.opt_bool(key).map(|b| b.unwrap_or(true));
        let config = Flux2VaeConfig {
            in_channels: size("in_channels", 3, MOST_CHANNELS)?,
            out_channels: size("out_channels", 3, MOST_CHANNELS)?,
            latent_channels: size("latent_channels", 32, MOST_CHANNELS)?,
            layers: size("layers_per_block", 2, MOST_LAYERS)?,
            encoder,
            decoder,
            groups,
            attention: is("mid_block_add_attention")?,
            quant: [is("use_quant_conv")?, is("use_post_quant_conv")?],
            norm_eps: keys.opt_above_zero("batch_norm_eps")?.unwrap_or(1e-4),
        };
        keys.finish()?;
        Ok(config)
    }

    /// Pixels along an edge of a latent.
    pub fn scale(&self) -> u64 {
        PATCH << (self.encoder.len() - 1)
    }

    /// C.
    fn packed(&self) -> u64 {
        self.latent_channels * PATCH * PATCH
    }
}

/// Channels of levels; groups divide each of them.
fn channels(keys: &Keys<'_>, key: &str, groups: u64) -> Result<Option<Vec<u64>>> {
    let Some(list) = keys.opt_u64s(key)? else { return Ok(None) };
    if list.is_empty() || list.len() > MOST_LEVELS {
        let what = format!("{key} has {} levels, 1 to {MOST_LEVELS} are read", list.len());
        return Err(keys.bad(key, what));
    }
    let bad = list.iter().find(|&&n| n == 0 || n > MOST_CHANNELS || n % groups != 0);
    if let Some(n) = bad {
        let what = format!(
            "{key} has {n}, expected 1 to {MOST_CHANNELS} channels in {groups} groups of one size"
        );
        return Err(keys.bad(key, what));
    }
    Ok(Some(list))
}

impl Model for Flux2VaeConfig {
    fn facts(&self) -> Facts {
        Facts {
            family: FAMILY.name,
            task: Task::Imagine,
            layers: self.encoder.len() as u64,
            // Latents of an image of 1024 by 1024 pixels, the size of those that it was trained with.
            context: 4096,
            vocab: 0,
            width: self.packed(),
        }
    }

    fn build(&self, tensors: &Tensors<'_>, _context: u64) -> Result<Module> {
        // An image is made without the encoder.
        tensors.inert(|name| name.starts_with("encoder.") || name.starts_with("quant_conv."));
        self.decode(tensors)
    }

    fn networks(&self, tensors: &Tensors<'_>, _: u64) -> Result<Vec<(&'static str, Module)>> {
        let mut out = vec![(DECODE_IMAGE, self.decode(tensors)?)];
        // A file may have the decoder alone.
        if tensors.has("encoder.conv_in.weight") {
            out.push((ENCODE_IMAGE, self.encode(tensors)?));
        }
        Ok(out)
    }

    fn small(&self, _layers: &[u64]) -> Box<dyn Model> {
        let narrow = |list: &[u64]| vec![self.groups; list.len()];
        Box::new(Flux2VaeConfig {
            encoder: narrow(&self.encoder),
            decoder: narrow(&self.decoder),
            layers: 1,
            ..self.clone()
        })
    }
}

/// A window of three by three that keeps the size.
fn around() -> Window {
    Window::new(2).pad(&[1, 1], &[1, 1])
}

/// How large a picture of channels is.
struct Place {
    height: Dim,
    width: Dim,
}

impl Place {
    /// So many rows and columns for each latent.
    fn new(scale: u64) -> Result<Place> {
        let size = |name| Dim::symbol(name).mul(&fixed(scale));
        Ok(Place { height: size(HEIGHT)?, width: size(WIDTH)? })
    }

    fn sizes(&self, channels: u64) -> [Dim; 4] {
        [Dim::symbol(BATCH), fixed(channels), self.height.clone(), self.width.clone()]
    }

    fn dims(&self, channels: u64) -> Vec<Dim> {
        self.sizes(channels).to_vec()
    }
}

impl Flux2VaeConfig {
    fn decode(&self, tensors: &Tensors<'_>) -> Result<Module> {
        let mut net = Net::new(DECODE_IMAGE, tensors);
        // Counts batches of training.
        tensors.inert(|name| name == "bn.num_batches_tracked");
        let (batch, h, w) = (Dim::symbol(BATCH), Dim::symbol(HEIGHT), Dim::symbol(WIDTH));
        let dims = vec![batch.clone(), h.clone(), w.clone(), fixed(self.packed())];
        let latents = net.input("latents", dims);
        let [mean, deviation] = self.statistics(&mut net)?;
        let x = net.zip(Binary::Mul, [latents, deviation], "bn_scaled");
        let x = net.zip(Binary::Add, [x, mean], "bn");
        let (l, p) = (self.latent_channels, fixed(PATCH));
        let dims = vec![batch, h, w, fixed(l), p.clone(), p];
        let x = net.reshape(x, dims, "patches");
        let x = net.transpose(x, &[0, 3, 1, 4, 2, 5], "patches_in_place");
        let mut scale = PATCH;
        let at = Place::new(scale)?;
        let mut x = net.reshape(x, at.dims(l), "unpatchified");
        net.tap("unpatchified.out", x);
        if self.quant[1] {
            x = net.conv(x, "post_quant_conv", [l, l, 1], Window::new(2))?;
            net.tap("post_quant_conv.out", x);
        }
        let mut have = *self.decoder.last().unwrap_or(&0);
        x = net.conv(x, "decoder.conv_in", [have, l, 3], around())?;
        net.tap("decoder.conv_in.out", x);
        x = self.middle(&mut net, x, "decoder", have, &at)?;
        let levels = self.decoder.len();
        for (level, &channels) in self.decoder.iter().rev().enumerate() {
            let label = format!("decoder.up_blocks.{level}");
            for i in 0..=self.layers {
                x = self.resnet(&mut net, x, &format!("{label}.resnets.{i}"), [have, channels])?;
                have = channels;
            }
            if level + 1 < levels {
                let label = format!("{label}.upsamplers.0");
                x = net.twice(x, Place::new(scale)?.sizes(channels), &label)?;
                scale *= 2;
                x = net.conv(x, &format!("{label}.conv"), [channels, channels, 3], around())?;
            }
            net.tap(format!("{label}.out"), x);
        }
        let x = self.norm_act(&mut net, x, "decoder.conv_norm_out", have)?;
        let x = net.conv(x, "decoder.conv_out", [self.out_channels, have, 3], around())?;
        net.m.output("image", x);
        Ok(net.m)
    }

    fn encode(&self, tensors: &Tensors<'_>) -> Result<Module> {
        let mut net = Net::new(ENCODE_IMAGE, tensors);
        let levels = self.encoder.len();
        let whole = Place::new(self.scale())?;
        let image = net.input("image", whole.dims(self.in_channels));
        let mut have = *self.encoder.first().unwrap_or(&0);
        let mut x = net.conv(image, "encoder.conv_in", [have, self.in_channels, 3], around())?;
        for (level, &channels) in self.encoder.iter().enumerate() {
            let label = format!("encoder.down_blocks.{level}");
            for i in 0..self.layers {
                x = self.resnet(&mut net, x, &format!("{label}.resnets.{i}"), [have, channels])?;
                have = channels;
            }
            if level + 1 < levels {
                // One row below and one column at the right.
                let window = Window::new(2).stride(&[2, 2]).pad(&[0, 0], &[1, 1]);
                let label = format!("{label}.downsamplers.0.conv");
                x = net.conv(x, &label, [channels, channels, 3], window)?;
            }
            net.tap(format!("{label}.out"), x);
        }
        let at = Place::new(PATCH)?;
        x = self.middle(&mut net, x, "encoder", have, &at)?;
        x = self.norm_act(&mut net, x, "encoder.conv_norm_out", have)?;
        let l = self.latent_channels;
        x = net.conv(x, "encoder.conv_out", [2 * l, have, 3], around())?;
        if self.quant[0] {
            x = net.conv(x, "quant_conv", [2 * l, 2 * l, 1], Window::new(2))?;
        }
        let mean = net.slice(x, 1, [fixed(0), fixed(l)], "mean");
        let logvar = net.slice(x, 1, [fixed(l), fixed(l)], "logvar_unbounded");
        let logvar = net.m.op(Clamp { min: -30.0, max: 20.0 }, &[logvar], "logvar");
        let (batch, h, w) = (Dim::symbol(BATCH), Dim::symbol(HEIGHT), Dim::symbol(WIDTH));
        let (p, c) = (fixed(PATCH), fixed(self.packed()));
        let dims = vec![batch.clone(), fixed(l), h.clone(), p.clone(), w.clone(), p];
        let y = net.reshape(mean, dims, "patches");
        let y = net.transpose(y, &[0, 2, 4, 1, 3, 5], "patches_together");
        let y = net.reshape(y, vec![batch, h, w, c], "patchified");
        let [stored, deviation] = self.statistics(&mut net)?;
        let y = net.zip(Binary::Sub, [y, stored], "bn_centred");
        let y = net.zip(Binary::Div, [y, deviation], "bn");
        net.m.output("latents", y);
        net.m.output("mean", mean);
        net.m.output("logvar", logvar);
        Ok(net.m)
    }

    /// Stored mean and deviation of each channel of a latent.
    fn statistics(&self, net: &mut Net<'_, '_>) -> Result<[Tensor; 2]> {
        let mean = net.wide("bn.running_mean", &[self.packed()])?;
        let var = net.wide("bn.running_var", &[self.packed()])?;
        let var = net.with_number(Binary::Add, var, self.norm_eps.into(), "bn_var")?;
        Ok([mean, net.map(Unary::Sqrt, var, "bn_deviation")])
    }

    fn group_norm(&self, net: &mut Net<'_, '_>, x: Tensor, name: &str, c: u64) -> Result<Tensor> {
        let [scale, bias] = net.affine(name, c)?;
        Ok(net.m.op(GroupNorm { groups: self.groups, eps: EPS }, &[x, scale, bias], name))
    }

    fn norm_act(&self, net: &mut Net<'_, '_>, x: Tensor, name: &str, c: u64) -> Result<Tensor> {
        let x = self.group_norm(net, x, name, c)?;
        Ok(net.map(Unary::Silu, x, &format!("{name}_act")))
    }

    /// Two convolutions and a way around them (arXiv:1512.03385).
    fn resnet(
        &self,
        net: &mut Net<'_, '_>,
        x: Tensor,
        name: &str,
        [have, channels]: [u64; 2],
    ) -> Result<Tensor> {
        let at = |part: &str| format!("{name}.{part}");
        let y = self.norm_act(net, x, &at("norm1"), have)?;
        let y = net.conv(y, &at("conv1"), [channels, have, 3], around())?;
        let y = self.norm_act(net, y, &at("norm2"), channels)?;
        let y = net.conv(y, &at("conv2"), [channels, channels, 3], around())?;
        let x = match have == channels {
            true => x,
            false => net.conv(x, &at("conv_shortcut"), [channels, have, 1], Window::new(2))?,
        };
        Ok(net.zip(Binary::Add, [x, y], name))
    }

    /// A layer, attention over all places with one head, and a layer.
    fn middle(
        &self,
        net: &mut Net<'_, '_>,
        x: Tensor,
        part: &str,
        c: u64,
        at: &Place,
    ) -> Result<Tensor> {
        let label = format!("{part}.mid_block");
        let mut x = self.resnet(net, x, &format!("{label}.resnets.0"), [c, c])?;
        if self.attention {
            let label = format!("{label}.attentions.0");
            x = self.attend(net, x, &label, c, at)?;
            net.tap(format!("{label}.out"), x);
        }
        let x = self.resnet(net, x, &format!("{label}.resnets.1"), [c, c])?;
        net.tap(format!("{label}.out"), x);
        Ok(x)
    }

    fn attend(
        &self,
        net: &mut Net<'_, '_>,
        x: Tensor,
        label: &str,
        c: u64,
        place: &Place,
    ) -> Result<Tensor> {
        let at = |part: &str| format!("{label}.{part}");
        let y = self.group_norm(net, x, &at("group_norm"), c)?;
        let [batch, channels, h, w] = place.sizes(c);
        let dims = vec![batch, channels, h.mul(&w)?];
        let y = net.reshape(y, dims, &at("places"));
        let y = net.transpose(y, &[0, 2, 1], &at("rows"));
        let q = net.linear(y, &at("to_q"), [c, c], true)?;
        let k = net.linear(y, &at("to_k"), [c, c], true)?;
        let v = net.linear(y, &at("to_v"), [c, c], true)?;
        let y = net.m.op(Sdpa::new(1, c as usize), &[q, k, v], label);
        let y = net.linear(y, &at("to_out.0"), [c, c], true)?;
        let y = net.transpose(y, &[0, 2, 1], &at("channels"));
        let y = net.reshape(y, place.dims(c), &at("picture"));
        Ok(net.zip(Binary::Add, [x, y], &at("residual")))
    }
}
