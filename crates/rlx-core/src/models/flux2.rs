//! FLUX.2's transformer (Black Forest Labs 2025): a rectified flow (arXiv:2209.03003) over latents of an image,
//! with joint attention of text and image (arXiv:2403.03206).
//!
//! H heads   E width of a head   D = H * E model   F feed-forward   C channels of a latent   J width of text rows
//! S latents of the image (`SEQ`)   T rows of text (`TEXT`)
//!
//! Differs from the paper: all blocks share their modulation, one triple (shift, scale, gate) for each branch; text
//! and image have weights of their own in the first blocks ("double") and the same ones in the rest ("single"),
//! where attention and feed-forward stand side by side; the positions have four axes (time, row, column, place in
//! the text), each of which turns its own part of a head.
//!
//! Entries:
//! - `denoise_step`: what the network predicts for latents of a time, their velocity.
//! - `denoise`: the latents one Euler step further. The latents stay on the device between steps where a caller
//!   keeps the output ([`Run::keep`](crate::runtime::session::Run::keep)).
//! - `guided_step`: the same of two velocities, one of them for a text that the image shall be unlike
//!   (arXiv:2207.12598).
//! - `noise`: latents of a picture at a time on the way to noise; of zeros at time 1 the latents to begin with, the
//!   same for a seed on every device.

use super::checkpoint::Checkpoint;
use super::diffusers::{self, Net, fixed};
use super::family::Family;
use super::keys::Keys;
use super::model::{Facts, Model, Task};
use super::tensors::Tensors;
use crate::error::Result;
use crate::ir::hir::{Module, Tensor};
use crate::math;
use crate::ops::{
    AdaNorm, Binary, Cast, GatedResidual, Gather, NormKind, RandomNormal, RmsNorm, Sdpa, Unary,
};
use crate::profile::{Preset, Presets};
use crate::types::{BATCH, DType, Dim, SEQ, Shape, Type};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "flux2",
    presets: Presets::of(Preset::Flux2),
    gguf: &[],
    transformers: &["Flux2Transformer2DModel"],
    open: |checkpoint| Ok(Box::new(Flux2Config::open(checkpoint)?)),
};

/// The entry that predicts the velocity of latents.
pub const DENOISE_STEP: &str = "denoise_step";
/// The entry that takes latents one Euler step further.
pub const DENOISE: &str = "denoise";
/// The entry that takes latents one Euler step further with two velocities: `velocity` and `other`.
pub const GUIDED_STEP: &str = "guided_step";
/// The entry that takes latents to a time on the way to noise: `key`, `latents` and `sigma` to `latents`.
pub const NOISE: &str = "noise";

/// Rows of text.
const TEXT: &str = "TEXT";
/// Axes of a position: time, row, column, place in the text.
const AXES: usize = 4;
/// Widths that a damaged file may not exceed: each is the length of a constant.
const WIDEST_HEAD: u64 = 1 << 12;
const WIDEST_TIME: u64 = 1 << 16;
/// No row of a product is longer.
const WIDEST_ROW: u64 = 1 << 24;

/// Sizes and constants of one checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Flux2Config {
    /// Blocks in which text and image have weights of their own.
    pub double_layers: u64,
    /// Blocks in which they share them.
    pub single_layers: u64,
    /// H.
    pub heads: u64,
    /// E, the sum of `axes`.
    pub head_dim: u64,
    /// F.
    pub ffn_dim: u64,
    /// C: channels of a latent that is given.
    pub in_channels: u64,
    /// Channels of what is predicted.
    pub out_channels: u64,
    /// J.
    pub text_dim: u64,
    /// Sines and cosines that a time becomes, even.
    pub time_dim: u64,
    /// Dimensions of a head that each axis of a position turns, even.
    pub axes: [u64; AXES],
    /// Base of the frequencies.
    pub theta: f32,
    /// Added to the variance in norms.
    pub eps: f32,
    /// Whether the strength of guidance is an input; distilled checkpoints have none.
    pub guidance: bool,
}

impl Flux2Config {
    /// Reads a checkpoint's configuration.
    ///
    /// # Errors
    /// `BadFile` naming the key that is missing, mistyped, 0, or at odds with another; `Unsupported` for a key or
    /// a value that this version does not know.
    pub fn open(checkpoint: &Checkpoint<'_>) -> Result<Self> {
        let keys = checkpoint.keys()?;
        diffusers::common(&keys);
        keys.neutral(&[("patch_size", 1.0, "gathers latents in patches")])?;
        let heads = keys.positive("num_attention_heads")?;
        let head_dim = at_most(&keys, "attention_head_dim", WIDEST_HEAD)?;
        let dim = heads * head_dim;
        if dim > WIDEST_ROW {
            let what = format!("{heads} heads of {head_dim} are rows of {dim}, more than are read");
            return Err(keys.bad("num_attention_heads", what));
        }
        let ratio = keys.opt_above_zero("mlp_ratio")?.unwrap_or(3.0);
        let ffn = math::floor(dim as f64 * f64::from(ratio));
        if !(1.0..=WIDEST_ROW as f64).contains(&ffn) {
            let what = format!("mlp_ratio is {ratio}: rows of {ffn} are not read");
            return Err(keys.bad("mlp_ratio", what));
        }
        let in_channels = at_most(&keys, "in_channels", WIDEST_ROW)?;
        let out_channels = keys.opt_positive("out_channels")?.unwrap_or(in_channels);
        let time_dim = match keys.opt_positive("timestep_guidance_channels")?.unwrap_or(256) {
            n if n > WIDEST_TIME || n % 2 == 1 => {
                let what = format!(
                    "timestep_guidance_channels is {n}, expected an even number up to {WIDEST_TIME}"
                );
                return Err(keys.bad("timestep_guidance_channels", what));
            }
            n => n,
        };
        let config = Flux2Config {
            double_layers: keys.layers("num_layers")?,
            single_layers: keys.layers("num_single_layers")?,
            heads,
            head_dim,
            ffn_dim: ffn as u64,
            in_channels,
            out_channels,
            text_dim: at_most(&keys, "joint_attention_dim", WIDEST_ROW)?,
            time_dim,
            axes: axes(&keys, head_dim)?,
            theta: keys.opt_above_zero("rope_theta")?.unwrap_or(2000.0),
            eps: keys.opt_above_zero("eps")?.unwrap_or(1e-6),
            guidance: keys.opt_bool("guidance_embeds")?.unwrap_or(true),
        };
        keys.finish()?;
        Ok(config)
    }

    /// D.
    fn dim(&self) -> u64 {
        self.heads * self.head_dim
    }
}

/// A size of 1 or more that is no larger than anything real.
fn at_most(keys: &Keys<'_>, key: &str, most: u64) -> Result<u64> {
    match keys.positive(key)? {
        n if n > most => Err(keys.bad(key, format!("{key} is {n}, at most {most} is read"))),
        n => Ok(n),
    }
}

/// The dimensions of a head that each axis turns.
fn axes(keys: &Keys<'_>, head_dim: u64) -> Result<[u64; AXES]> {
    const KEY: &str = "axes_dims_rope";
    let list = keys.opt_u64s(KEY)?.unwrap_or_else(|| vec![32; AXES]);
    let sum = list.iter().try_fold(0u64, |sum, &n| sum.checked_add(n));
    match <[u64; AXES]>::try_from(list) {
        Ok(axes) if sum == Some(head_dim) && axes.iter().all(|n| n % 2 == 0) => Ok(axes),
        _ => {
            Err(keys
                .bad(KEY, format!("{KEY} is not {AXES} even numbers that are {head_dim} together")))
        }
    }
}

impl Model for Flux2Config {
    fn facts(&self) -> Facts {
        Facts {
            family: FAMILY.name,
            task: Task::Imagine,
            layers: self.double_layers + self.single_layers,
            // Latents of an image of 1024 by 1024 pixels, the size of those that it was trained with.
            context: 4096,
            vocab: 0,
            width: self.dim(),
        }
    }

    fn build(&self, tensors: &Tensors<'_>, _context: u64) -> Result<Module> {
        let mut net = Net::new(DENOISE_STEP, tensors);
        let latents = self.latents(&mut net, "hidden_states");
        let time = net.input("timestep", vec![Dim::symbol(BATCH)]);
        let sample = self.velocity(&mut net, latents, time)?;
        net.m.output("sample", sample);
        Ok(net.m)
    }

    fn networks(&self, tensors: &Tensors<'_>, context: u64) -> Result<Vec<(&'static str, Module)>> {
        let mut out = vec![(DENOISE_STEP, self.build(tensors, context)?)];
        // A step takes latents to where they are again latents.
        if self.in_channels == self.out_channels {
            out.push((DENOISE, self.step(tensors)?));
            out.push((GUIDED_STEP, self.guided_step(tensors)));
        }
        out.push((NOISE, self.noise(tensors)));
        Ok(out)
    }

    fn small(&self, layers: &[u64]) -> Box<dyn Model> {
        let double = layers.iter().filter(|&&i| i < self.double_layers).count() as u64;
        let heads = self.heads.min(2);
        Box::new(Flux2Config {
            double_layers: double,
            single_layers: layers.len() as u64 - double,
            heads,
            ffn_dim: self.ffn_dim.min(3 * heads * self.head_dim),
            ..self.clone()
        })
    }

    fn kind(&self, layer: u64) -> u64 {
        if layer < self.double_layers { 0 } else { self.double_layers }
    }
}

/// Shift, scale and gate of one branch, each `[BATCH, 1, D]`.
#[derive(Clone, Copy)]
struct Modulation {
    shift: Tensor,
    scale: Tensor,
    gate: Tensor,
}

/// What all blocks read: cosines and sines, `[rows, 1, E]`, and the neighbour of each dimension of a head.
struct Turns {
    cos: Tensor,
    sin: Tensor,
    neighbours: Tensor,
}

impl Flux2Config {
    fn latents(&self, net: &mut Net<'_, '_>, name: &str) -> Tensor {
        let dims = vec![Dim::symbol(BATCH), Dim::symbol(SEQ), fixed(self.in_channels)];
        net.input(name, dims)
    }

    /// `latents + (sigma_next - sigma) * velocity`.
    fn step(&self, tensors: &Tensors<'_>) -> Result<Module> {
        let mut net = Net::new(DENOISE, tensors);
        let latents = self.latents(&mut net, "latents");
        let [sigma, next] = number_of_each(&mut net, ["sigma", "sigma_next"]);
        let sample = self.velocity(&mut net, latents, sigma)?;
        euler(&mut net, [latents, sample], [sigma, next]);
        Ok(net.m)
    }

    /// `latents + (sigma_next - sigma) * (other + strength * (velocity - other))`.
    fn guided_step(&self, tensors: &Tensors<'_>) -> Module {
        let mut net = Net::new(GUIDED_STEP, tensors);
        let [latents, velocity, other] =
            ["latents", "velocity", "other"].map(|name| self.latents(&mut net, name));
        let [strength, sigma, next] = number_of_each(&mut net, ["strength", "sigma", "sigma_next"]);
        let apart = net.zip(Binary::Sub, [velocity, other], "apart");
        let strength = of_each(&mut net, strength, "strength_of_each");
        let sample = net.m.op(GatedResidual, &[other, apart, strength], "guided");
        euler(&mut net, [latents, sample], [sigma, next]);
        net.m
    }

    /// `latents + sigma * (normal - latents)`: for `sigma` 1 and latents of zeros, normal numbers alone.
    fn noise(&self, tensors: &Tensors<'_>) -> Module {
        let mut net = Net::new(NOISE, tensors);
        let key = net.m.input("key", Type::tensor(DType::U32, Shape::of(&[4])));
        let latents = self.latents(&mut net, "latents");
        let [sigma] = number_of_each(&mut net, ["sigma"]);
        let dims = Shape(vec![Dim::symbol(BATCH), Dim::symbol(SEQ), fixed(self.in_channels)]);
        let normal = net.m.op(RandomNormal { dims }, &[key], "normal");
        let apart = net.zip(Binary::Sub, [normal, latents], "apart");
        let sigma = of_each(&mut net, sigma, "sigma_of_each");
        let noisy = net.m.op(GatedResidual, &[latents, apart, sigma], "noisy");
        net.m.output("latents", noisy);
        net.m
    }

    /// The network: latents `[BATCH, SEQ, C]` and their time, from 1 (noise) to 0, to `[BATCH, SEQ, C]`.
    fn velocity(&self, net: &mut Net<'_, '_>, latents: Tensor, time: Tensor) -> Result<Tensor> {
        let (batch, text, d) = (Dim::symbol(BATCH), Dim::symbol(TEXT), self.dim());
        let words = vec![batch.clone(), text.clone(), fixed(self.text_dim)];
        let words = net.input("encoder_hidden_states", words);
        let condition = self.condition(net, time)?;
        let image = self.modulations(net, "double_stream_modulation_img", condition, 2)?;
        let of_text = self.modulations(net, "double_stream_modulation_txt", condition, 2)?;
        let single = self.modulations(net, "single_stream_modulation", condition, 1)?;
        let mut x = net.linear(latents, "x_embedder", [d, self.in_channels], false)?;
        net.tap("x_embedder.out", x);
        let mut y = net.linear(words, "context_embedder", [d, self.text_dim], false)?;
        net.tap("context_embedder.out", y);
        let turns = self.turns(net)?;
        for i in 0..self.double_layers {
            [y, x] = self.double(net, i, [y, x], [&of_text, &image], &turns)?;
        }
        let mut all = net.concat([y, x], 1, "text_and_image");
        for i in 0..self.single_layers {
            all = self.single(net, i, all, single[0], &turns)?;
        }
        let x = net.slice(all, 1, [text, Dim::symbol(SEQ)], "image");
        let scale_shift = net.linear(condition, "norm_out.linear", [2 * d, d], false)?;
        // Here the scale is first, unlike in the blocks.
        let [scale, shift] = [0, 1].map(|i| {
            let part = net.slice(scale_shift, 1, [fixed(i * d), fixed(d)], "norm_out_part");
            net.reshape(part, vec![batch.clone(), fixed(1), fixed(d)], "norm_out_of_each")
        });
        let x = self.norm(net, x, scale, shift, "norm_out");
        net.tap("norm_out.out", x);
        let x = net.linear(x, "proj_out", [self.out_channels, d], false)?;
        net.tap("proj_out.out", x);
        Ok(x)
    }

    /// `silu` of the embedding of the time, and of the guidance if there is one: `[BATCH, D]`.
    fn condition(&self, net: &mut Net<'_, '_>, time: Tensor) -> Result<Tensor> {
        const AT: &str = "time_guidance_embed";
        let mut sum = self.embedding(net, time, &format!("{AT}.timestep_embedder"))?;
        if self.guidance {
            let strength = net.input("guidance", vec![Dim::symbol(BATCH)]);
            let strength = self.embedding(net, strength, &format!("{AT}.guidance_embedder"))?;
            sum = net.zip(Binary::Add, [sum, strength], AT);
        }
        net.tap(format!("{AT}.out"), sum);
        Ok(net.map(Unary::Silu, sum, "condition"))
    }

    /// Two linear layers over cosines and sines of a thousand times a number (arXiv:1706.03762, section 3.5).
    fn embedding(&self, net: &mut Net<'_, '_>, x: Tensor, name: &str) -> Result<Tensor> {
        let half = self.time_dim / 2;
        let frequency = |i| math::exp(-math::log(10_000.0) * i as f64 / half as f64) as f32;
        let frequencies: Vec<f32> = (0..half).map(frequency).collect();
        let at = |part: &str| format!("{name}.{part}");
        let x = net.reshape(x, vec![Dim::symbol(BATCH), fixed(1)], &at("column"));
        let x = net.with_number(Binary::Mul, x, 1000.0, &at("thousandfold"))?;
        let frequencies = net.numbers(&frequencies, &at("frequencies"))?;
        let angles = net.zip(Binary::Mul, [x, frequencies], &at("angles"));
        let cos = net.map(Unary::Cos, angles, &at("cos"));
        let sin = net.map(Unary::Sin, angles, &at("sin"));
        let x = net.concat([cos, sin], 1, &at("waves"));
        let d = self.dim();
        let x = net.linear(x, &at("linear_1"), [d, self.time_dim], false)?;
        let x = net.map(Unary::Silu, x, &at("act"));
        net.linear(x, &at("linear_2"), [d, d], false)
    }

    /// Shift, scale and gate of so many branches.
    fn modulations(
        &self,
        net: &mut Net<'_, '_>,
        name: &str,
        condition: Tensor,
        branches: u64,
    ) -> Result<Vec<Modulation>> {
        let d = self.dim();
        let sizes = [3 * branches * d, d];
        let all = net.linear(condition, &format!("{name}.linear"), sizes, false)?;
        net.tap(format!("{name}.out"), all);
        let dims = vec![Dim::symbol(BATCH), fixed(3 * branches), fixed(d)];
        let all = net.reshape(all, dims, &format!("{name}_parts"));
        let mut part = |i: u64| net.slice(all, 1, [fixed(i), fixed(1)], &format!("{name}_part{i}"));
        let one = |b: u64| {
            let [shift, scale, gate] = [part(3 * b), part(3 * b + 1), part(3 * b + 2)];
            Modulation { shift, scale, gate }
        };
        Ok((0..branches).map(one).collect())
    }

    /// Cosines and sines of all positions, those of the text first. Neighbours (2j, 2j + 1) of a head turn
    /// together (arXiv:2104.09864), by the axis whose part they are in.
    fn turns(&self, net: &mut Net<'_, '_>) -> Result<Turns> {
        let text = positions(net, "txt_ids", TEXT);
        let image = positions(net, "img_ids", SEQ);
        let all = net.concat([text, image], 0, "positions");
        let all = net.m.op(Cast { to: DType::F32 }, &[all], "positions_f32");
        let (mut axis_of, mut frequencies) = (Vec::new(), Vec::new());
        for (axis, &width) in self.axes.iter().enumerate() {
            for i in 0..width {
                let exponent = (i / 2 * 2) as f64 / width as f64;
                axis_of.push(axis as u32);
                frequencies.push((1.0 / math::pow(f64::from(self.theta), exponent)) as f32);
            }
        }
        let axis_of = net.indices(&axis_of, "rope_axes")?;
        let positions = net.m.op(Gather { axis: 1 }, &[all, axis_of], "rope_positions");
        let frequencies = net.numbers(&frequencies, "rope_frequencies")?;
        let angles = net.zip(Binary::Mul, [positions, frequencies], "rope_angles");
        let cos = net.map(Unary::Cos, angles, "rope_cos");
        net.tap("rope_cos", cos);
        let sin = net.map(Unary::Sin, angles, "rope_sin");
        net.tap("rope_sin", sin);
        // The first of two neighbours takes the second one away.
        let width = self.head_dim as u32;
        let signs: Vec<f32> = (0..width).map(|i| if i % 2 == 0 { -1.0 } else { 1.0 }).collect();
        let signs = net.numbers(&signs, "rope_signs")?;
        let sin = net.zip(Binary::Mul, [sin, signs], "rope_signed_sin");
        let rows = Dim::symbol(TEXT).add(&Dim::symbol(SEQ))?;
        let [cos, sin] = [(cos, "cos"), (sin, "sin")].map(|(x, part)| {
            let dims = vec![rows.clone(), fixed(1), fixed(self.head_dim)];
            net.reshape(x, dims, &format!("rope_{part}_of_heads"))
        });
        let neighbours: Vec<u32> = (0..width).map(|i| i ^ 1).collect();
        let neighbours = net.indices(&neighbours, "rope_neighbours")?;
        Ok(Turns { cos, sin, neighbours })
    }

    /// `(1 + scale) * norm(x) + shift`.
    fn norm(
        &self,
        net: &mut Net<'_, '_>,
        x: Tensor,
        scale: Tensor,
        shift: Tensor,
        label: &str,
    ) -> Tensor {
        let norm = AdaNorm { norm: NormKind::LayerNorm, eps: self.eps };
        net.m.op(norm, &[x, scale, shift], label)
    }

    /// `[BATCH, rows, D]` as heads.
    fn heads(&self, net: &mut Net<'_, '_>, x: Tensor, rows: &Dim, label: &str) -> Tensor {
        let dims = vec![Dim::symbol(BATCH), rows.clone(), fixed(self.heads), fixed(self.head_dim)];
        net.reshape(x, dims, &format!("{label}_heads"))
    }

    /// An RMS norm of each head.
    fn head_norm(&self, net: &mut Net<'_, '_>, x: Tensor, name: &str) -> Result<Tensor> {
        let w = net.wide(&format!("{name}.weight"), &[self.head_dim])?;
        Ok(net.m.op(RmsNorm { eps: self.eps }, &[x, w], name))
    }

    /// Heads `[BATCH, rows, H, E]`, turned.
    fn turn(&self, net: &mut Net<'_, '_>, x: Tensor, turns: &Turns, label: &str) -> Tensor {
        let at = |part: &str| format!("{label}_{part}");
        let other = net.m.op(Gather { axis: 3 }, &[x, turns.neighbours], &at("neighbours"));
        let x = net.zip(Binary::Mul, [x, turns.cos], &at("by_cos"));
        let other = net.zip(Binary::Mul, [other, turns.sin], &at("by_sin"));
        net.zip(Binary::Add, [x, other], &at("turned"))
    }

    /// Attention of normed heads over all rows: `[BATCH, TEXT + SEQ, D]`.
    fn attend(
        &self,
        net: &mut Net<'_, '_>,
        [q, k, v]: [Tensor; 3],
        turns: &Turns,
        label: &str,
    ) -> Result<Tensor> {
        let q = self.turn(net, q, turns, &format!("{label}.q"));
        let k = self.turn(net, k, turns, &format!("{label}.k"));
        let sdpa = Sdpa::new(self.heads as usize, self.head_dim as usize);
        let a = net.m.op(sdpa, &[q, k, v], label);
        let rows = Dim::symbol(TEXT).add(&Dim::symbol(SEQ))?;
        let dims = vec![Dim::symbol(BATCH), rows, fixed(self.dim())];
        Ok(net.reshape(a, dims, &format!("{label}_rows")))
    }

    /// `silu(gate) * value` of `[gate | value]`, `[.., 2 F] -> [.., F]`, from `start` on.
    fn gated(&self, net: &mut Net<'_, '_>, x: Tensor, start: u64, label: &str) -> Tensor {
        let f = self.ffn_dim;
        let gate = net.slice(x, 2, [fixed(start), fixed(f)], &format!("{label}_gate"));
        let value = net.slice(x, 2, [fixed(start + f), fixed(f)], &format!("{label}_value"));
        let gate = net.map(Unary::Silu, gate, &format!("{label}_act"));
        net.zip(Binary::Mul, [gate, value], &format!("{label}_glu"))
    }

    /// A block with weights for text and others for the image: `[text, image] -> [text, image]`.
    fn double(
        &self,
        net: &mut Net<'_, '_>,
        i: u64,
        [text, image]: [Tensor; 2],
        [of_text, of_image]: [&[Modulation]; 2],
        turns: &Turns,
    ) -> Result<[Tensor; 2]> {
        let (d, f) = (self.dim(), self.ffn_dim);
        let label = format!("transformer_blocks.{i}");
        let at = |part: &str| format!("{label}.{part}");
        let sizes = [Dim::symbol(TEXT), Dim::symbol(SEQ)];
        let mut parts = |x: Tensor, m: Modulation, rows: &Dim, names: [&str; 4]| -> Result<_> {
            let x = self.norm(net, x, m.scale, m.shift, &at(names[0]));
            let mut heads = |name: &str, norm: Option<&str>| -> Result<Tensor> {
                let name = at(&format!("attn.{name}"));
                let y = net.linear(x, &name, [d, d], false)?;
                let y = self.heads(net, y, rows, &name);
                let Some(norm) = norm else { return Ok(y) };
                self.head_norm(net, y, &at(&format!("attn.{norm}")))
            };
            let suffix = if names[0] == "norm1" { "" } else { "added_" };
            let q = heads(names[1], Some(&format!("norm_{suffix}q")))?;
            let k = heads(names[2], Some(&format!("norm_{suffix}k")))?;
            Ok([q, k, heads(names[3], None)?])
        };
        let words = ["norm1_context", "add_q_proj", "add_k_proj", "add_v_proj"];
        let a = parts(text, of_text[0], &sizes[0], words)?;
        let b = parts(image, of_image[0], &sizes[1], ["norm1", "to_q", "to_k", "to_v"])?;
        let names = ["q", "k", "v"];
        let [q, k, v] =
            [0, 1, 2].map(|n| net.concat([a[n], b[n]], 1, &at(&format!("attn.{}", names[n]))));
        let all = self.attend(net, [q, k, v], turns, &at("attn"))?;
        let [t, s] = sizes;
        let of_words = net.slice(all, 1, [fixed(0), t.clone()], &at("attn_text"));
        let of_places = net.slice(all, 1, [t, s], &at("attn_image"));
        let of_places = net.linear(of_places, &at("attn.to_out.0"), [d, d], false)?;
        net.tap(at("attn.out"), of_places);
        let of_words = net.linear(of_words, &at("attn.to_add_out"), [d, d], false)?;
        net.tap(at("attn.out.1"), of_words);
        let mut finish = |x, a, m: &[Modulation], [norm, ff]: [&str; 2]| -> Result<[Tensor; 2]> {
            let x = net.m.op(GatedResidual, &[x, a, m[0].gate], &at(&format!("{norm}_attn")));
            let y = self.norm(net, x, m[1].scale, m[1].shift, &at(norm));
            let y = net.linear(y, &at(&format!("{ff}.linear_in")), [2 * f, d], false)?;
            let y = self.gated(net, y, 0, &at(ff));
            let y = net.linear(y, &at(&format!("{ff}.linear_out")), [d, f], false)?;
            Ok([net.m.op(GatedResidual, &[x, y, m[1].gate], &at(&format!("{norm}_ff"))), y])
        };
        let [image, ff] = finish(image, of_places, of_image, ["norm2", "ff"])?;
        let [text, _] = finish(text, of_words, of_text, ["norm2_context", "ff_context"])?;
        net.tap(at("ff.out"), ff);
        net.tap(at("out"), text);
        net.tap(at("out.1"), image);
        Ok([text, image])
    }

    /// A block with the same weights for text and image, attention and feed-forward side by side.
    fn single(
        &self,
        net: &mut Net<'_, '_>,
        i: u64,
        x: Tensor,
        m: Modulation,
        turns: &Turns,
    ) -> Result<Tensor> {
        let (d, f) = (self.dim(), self.ffn_dim);
        let label = format!("single_transformer_blocks.{i}");
        let at = |part: &str| format!("{label}.{part}");
        let h = self.norm(net, x, m.scale, m.shift, &at("norm"));
        let all = [3 * d + 2 * f, d];
        let all = net.linear(h, &at("attn.to_qkv_mlp_proj"), all, false)?;
        let rows = Dim::symbol(TEXT).add(&Dim::symbol(SEQ))?;
        let [q, k, v] = [(0, "attn.q"), (1, "attn.k"), (2, "attn.v")].map(|(n, part)| {
            let y = net.slice(all, 2, [fixed(n * d), fixed(d)], &at(part));
            self.heads(net, y, &rows, &at(part))
        });
        let q = self.head_norm(net, q, &at("attn.norm_q"))?;
        let k = self.head_norm(net, k, &at("attn.norm_k"))?;
        let a = self.attend(net, [q, k, v], turns, &at("attn"))?;
        let g = self.gated(net, all, 3 * d, &at("attn.mlp"));
        let both = net.concat([a, g], 2, &at("attn.both"));
        let y = net.linear(both, &at("attn.to_out"), [d, d + f], false)?;
        net.tap(at("attn.out"), y);
        let x = net.m.op(GatedResidual, &[x, y, m.gate], &at("residual"));
        net.tap(at("out"), x);
        Ok(x)
    }
}

/// Inputs of one number for each image.
fn number_of_each<const N: usize>(net: &mut Net<'_, '_>, names: [&str; N]) -> [Tensor; N] {
    names.map(|name| net.input(name, vec![Dim::symbol(BATCH)]))
}

/// A number of each image, to be multiplied with its latents.
fn of_each(net: &mut Net<'_, '_>, x: Tensor, label: &str) -> Tensor {
    net.reshape(x, vec![Dim::symbol(BATCH), fixed(1), fixed(1)], label)
}

/// The output `latents`: what they are a step further.
fn euler(net: &mut Net<'_, '_>, [latents, sample]: [Tensor; 2], [sigma, next]: [Tensor; 2]) {
    let dt = net.zip(Binary::Sub, [next, sigma], "dt");
    let dt = of_each(net, dt, "dt_of_each");
    let latents = net.m.op(GatedResidual, &[latents, sample, dt], "euler");
    net.m.output("latents", latents);
}

/// Positions of rows, `[rows, 4]`: time, row, column, place in the text.
fn positions(net: &mut Net<'_, '_>, name: &str, rows: &str) -> Tensor {
    let dims = Shape(vec![Dim::symbol(rows), fixed(AXES as u64)]);
    net.m.input(name, Type::tensor(DType::U32, dims))
}
