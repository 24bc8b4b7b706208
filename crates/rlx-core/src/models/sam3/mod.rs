//! Segment Anything 3 for images (Carion et al. 2025, arXiv:2511.16719): an image is encoded once, then words, or words
//! and boxes of examples, ask for every thing in it that they mean. Following things through a film is not in it.
//!
//! G places along an edge of the grid of patches   C width of everything after the encoders   Q things found at most
//!
//! Networks with shared weights:
//!
//! - `image_embed`: `pixel_values [BATCH, 3, S, S]` to `image_embeddings [BATCH, C, G, G]`, and features that are
//!   finer: `middle_embeddings [BATCH, C, 2 G, 2 G]` and `fine_embeddings [BATCH, C, 4 G, 4 G]` (`image.rs`).
//! - `text_embed`: `input_ids [BATCH, TOKENS]` (u32) to `text_embeddings [BATCH, TOKENS, C]` (`text.rs`). A token sees
//!   those before it, so what pads a text stands behind it and changes nothing of it.
//! - `detect`: all of those and `attention_mask [BATCH, TOKENS]` (u32, 0 for what pads) to what is found.
//! - `detect_from_boxes`: the same with `input_boxes [BATCH, BOXES, 4]` (the middle's x and y, width and height, of an
//!   image that is 1 wide and 1 high) and `input_boxes_labels [BATCH, BOXES]` (i32): 1 for a box around such a thing, 0
//!   for one around something else, -10 for padding (`geometry.rs`).
//!
//! Outputs are `pred_masks [BATCH, Q, 4 G, 4 G]` (logits: 0 is the edge), `pred_boxes [BATCH, Q, 4]` (left, top, right
//! and bottom of an image that is 1 wide and 1 high), `pred_logits [BATCH, Q]`, `presence_logits [BATCH, 1]` and
//! `semantic_seg [BATCH, 1, 4 G, 4 G]` (logits of all such things together). How sure the model is of a thing is
//! `sigmoid(pred_logits) sigmoid(presence_logits)`.
//!
//! A published folder has a second model, which follows things through a film; its tensors are not read.

mod detr;
mod geometry;
mod image;
mod mask;
mod parse;
mod text;

use super::family::Family;
use super::model::{Facts, Model, Task};
use super::sam::{IMAGE_EMBED, Make};
use super::tensors::Tensors;
use crate::error::Result;
use crate::ir::hir::{Module, Tensor};
use crate::ops::{Constant, Mask, Unary};
use crate::profile::{Preset, Presets};
use crate::types::Dim;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "sam3",
    presets: Presets::of(Preset::Sam3),
    gguf: &[],
    transformers: &["sam3", "sam3_video"],
    open: |checkpoint| Ok(Box::new(Sam3Config::open(checkpoint)?)),
};

/// The entry that encodes words.
pub const TEXT_EMBED: &str = "text_embed";
/// The entry that finds what words mean.
pub const DETECT: &str = "detect";
/// The entry that finds what words and boxes mean.
pub const DETECT_FROM_BOXES: &str = "detect_from_boxes";

/// The label of a box that is none.
pub const NO_BOX: i32 = -10;

/// Symbols: the tokens of each text, and the boxes of each image.
const TOKENS: &str = "TOKENS";
const BOXES: &str = "BOXES";

/// Added to the variance in norms of what follows the encoders, whatever their configuration names: PyTorch's own
/// number.
const EPS: f32 = 1e-5;

/// Axes from channels first to last, and from last to first.
const LAST: [usize; 4] = [0, 2, 3, 1];
const FIRST: [usize; 4] = [0, 3, 1, 2];

/// Sizes and constants of one checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Sam3Config {
    /// What stands before every tensor's name.
    prefix: &'static str,
    /// The encoder of images.
    pub image: Sam3Image,
    /// The encoder of words.
    pub text: Sam3Text,
    /// C.
    pub width: u64,
    /// Layers that boxes pass.
    pub geometry: Sam3Layers,
    /// Places of the pooled features of a box, along an edge.
    pub roi: u64,
    /// Layers in which the image's places see the prompt.
    pub encoder: Sam3Layers,
    /// Layers in which things are found.
    pub decoder: Sam3Layers,
    /// Q.
    pub queries: u64,
    /// Heads of the attention that precedes masks.
    pub mask_heads: u64,
    /// Stages that make masks finer, by the weights of a file: the first two are used.
    pub mask_stages: u64,
}

/// A vision transformer with windows and rotary positions of two axes, and what makes its features finer.
#[derive(Clone, Debug, PartialEq)]
pub struct Sam3Image {
    /// Its layers: for each whether a place sees the whole grid and not its window alone.
    pub global: Vec<bool>,
    /// D.
    pub dim: u64,
    /// Width within its feed-forward.
    pub ffn_dim: u64,
    /// Its heads.
    pub heads: u64,
    /// Pixels along an edge of the image.
    pub size: u64,
    /// Pixels along an edge of a patch.
    pub patch: u64,
    /// G.
    pub grid: u64,
    /// Places along an edge of the table of positions, which is repeated over the grid.
    pub table: u64,
    /// Places along an edge of a window.
    pub window: u64,
    /// The base of the rotary frequencies.
    pub theta: f32,
    /// Added to the variance in norms.
    pub eps: f32,
    /// What stands within the feed-forward.
    pub act: Unary,
}

/// The text encoder of CLIP (Radford et al. 2021, arXiv:2103.00020).
#[derive(Clone, Debug, PartialEq)]
pub struct Sam3Text {
    /// Its layers.
    pub layers: u64,
    /// Width of its rows.
    pub dim: u64,
    /// Width within its feed-forward.
    pub ffn_dim: u64,
    /// Its heads.
    pub heads: u64,
    /// Tokens it knows.
    pub vocab: u64,
    /// Tokens of a text at most.
    pub context: u64,
    /// Added to the variance in norms.
    pub eps: f32,
    /// What stands within the feed-forward.
    pub act: Unary,
}

/// Layers of a transformer that is C wide.
#[derive(Clone, Debug, PartialEq)]
pub struct Sam3Layers {
    /// How many.
    pub layers: u64,
    /// Heads of each.
    pub heads: u64,
    /// Width within the feed-forward.
    pub ffn_dim: u64,
    /// What stands within the feed-forward.
    pub act: Unary,
}

/// What asks for things: rows `[BATCH, N, C]`, and `[BATCH, N]` of f32, 0 for rows that nothing sees.
struct Prompt {
    rows: Tensor,
    seen: Tensor,
    /// N.
    count: Dim,
}

impl Prompt {
    fn mask(&self) -> (Mask, Option<Tensor>) {
        (Mask::Custom, Some(self.seen))
    }
}

impl Sam3Config {
    /// The start of a network.
    fn make<'a, 't>(&self, name: &str, tensors: &'a Tensors<'t>) -> Make<'a, 't> {
        // What follows things through a film.
        if !self.prefix.is_empty() {
            tensors.inert(|n| n.starts_with("tracker_model.") || n.starts_with("tracker_neck."));
        }
        Make { m: Module::graph(name), tensors, out_proj: "o_proj", prefix: self.prefix }
    }
}

/// Two linear layers `fc1` and `fc2`.
fn mlp(
    b: &mut Make<'_, '_>,
    x: Tensor,
    name: &str,
    [c, f]: [u64; 2],
    act: Unary,
) -> Result<Tensor> {
    let y = b.linear(x, &format!("{name}.fc1"), [f, c], Some(act))?;
    b.linear(y, &format!("{name}.fc2"), [c, f], None)
}

/// Linear layers `layer1`, `layer2` and so on, as many as there are steps between widths, with `relu` between them.
fn steps(b: &mut Make<'_, '_>, x: Tensor, name: &str, widths: &[u64]) -> Result<Tensor> {
    let mut x = x;
    for (i, pair) in widths.windows(2).enumerate() {
        let &[input, out] = pair else { continue };
        let act = (i + 2 < widths.len()).then_some(Unary::Relu);
        x = b.linear(x, &format!("{name}.layer{}", i + 1), [out, input], act)?;
    }
    Ok(x)
}

/// The frequencies of sines and cosines for a number: `base^(-2 j / n)` for each pair j of n features, times a factor.
fn frequencies(n: u64, factor: f64) -> Vec<f64> {
    let power = |j: u64| crate::math::pow(10000.0, -2.0 * j as f64 / n as f64);
    (0..n / 2).map(|j| factor * power(j)).collect()
}

/// Sines and cosines of K numbers each: `at [B, N, K]` to `[B, N, K n]`, for every number n features, pairs of a sine
/// and a cosine. An image is one turn.
fn sines(
    b: &mut Make<'_, '_>,
    at: Tensor,
    name: &str,
    [batch, count]: [Dim; 2],
    [numbers, n]: [u64; 2],
) -> Result<Tensor> {
    let of = |part: &str| format!("{name}.{part}");
    let list: Vec<f32> =
        frequencies(n, 2.0 * core::f64::consts::PI).iter().map(|&x| x as f32).collect();
    let list = b.m.op(Constant::f32s(&[n / 2], &list)?, &[], &of("frequencies"));
    let one = Dim::from(1u64);
    let head = [batch, count];
    let dims = |rest: &[Dim]| [head.as_slice(), rest].concat();
    let at = b.reshape(at, &dims(&[numbers.into(), one.clone()]), &of("numbers"));
    let angles = b.zip(crate::ops::Binary::Mul, at, list, &of("angles"));
    let pairs = dims(&[numbers.into(), (n / 2).into(), one]);
    let mut part = |f: Unary, label: &str| {
        let x = b.map(f, angles, &of(label));
        b.reshape(x, &pairs, &of(&format!("{label}_pairs")))
    };
    let both = [part(Unary::Sin, "sin"), part(Unary::Cos, "cos")];
    let x = b.concat(&both, 4, &of("pairs"));
    Ok(b.reshape(x, &dims(&[(numbers * n).into()]), name))
}

impl Model for Sam3Config {
    fn facts(&self) -> Facts {
        Facts {
            family: FAMILY.name,
            task: Task::Segment,
            layers: self.image.global.len() as u64,
            context: self.image.grid * self.image.grid,
            vocab: self.text.vocab,
            width: self.width,
        }
    }

    fn build(&self, tensors: &Tensors<'_>, _context: u64) -> Result<Module> {
        self.image_embed(tensors)
    }

    fn networks(&self, tensors: &Tensors<'_>, _: u64) -> Result<Vec<(&'static str, Module)>> {
        Ok(Vec::from([
            (IMAGE_EMBED, self.image_embed(tensors)?),
            (TEXT_EMBED, self.text_embed(tensors)?),
            (DETECT, self.detect(tensors, false)?),
            (DETECT_FROM_BOXES, self.detect(tensors, true)?),
        ]))
    }

    fn small(&self, layers: &[u64]) -> Box<dyn Model> {
        let own = |&at: &u64| self.image.global.get(at as usize).copied().unwrap_or(true);
        let global = layers.iter().map(own).collect();
        Box::new(Sam3Config { image: Sam3Image { global, ..self.image.clone() }, ..self.clone() })
    }
}
