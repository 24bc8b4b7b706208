//! What encoders of images share: patches as rows, their positions, layers that are normed before
//! their attention and their feed-forward, and what is made of the rows (arXiv:2010.11929, section 3.1).
//!
//! D model   F feed-forward   H heads   P pixels along the edge of a patch   C classes

use super::checkpoint::Checkpoint;
use super::encoder::{self, zip};
use super::keys::Keys;
use super::model::{Facts, Model, Task};
use super::position_grid::resized;
use super::tensors::Tensors;
use super::transformers;
use crate::error::Result;
use crate::ir::hir::{EncoderAttention, Module, PatchEmbed, Tensor, Weight};
use crate::ops::{Binary, Cast, Concat, Expand, Mask, Reduce, Reduction, Reshape, Slice, Unary};
use crate::types::{BATCH, DType, Dim, DimOp, Shape, Type};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

/// The symbols of an image's sizes, in pixels.
const SIZES: [&str; 2] = ["HEIGHT", "WIDTH"];
/// Red, green, blue.
const CHANNELS: u64 = 3;

/// What one family has and another has not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ImageLayers {
    /// ViT: images of one size, a feed-forward of two linear layers, and a pooler.
    Vit,
    /// DINOv2: images of any size, and a scale of each branch.
    Dino {
        /// Rows between the first and the patches, which have no positions.
        registers: u64,
        /// Whether the positions' kernel widens where their grid shrinks.
        antialias: bool,
        /// Whether the feed-forward is gated: `out(silu(gate) * value)`.
        gated: bool,
    },
}

/// Sizes and constants of an image encoder.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageEncoder {
    /// The family's name.
    pub family: &'static str,
    /// Encoder layers.
    pub layers: u64,
    /// D.
    pub dim: u64,
    /// F.
    pub ffn_dim: u64,
    /// H.
    pub heads: u64,
    /// Pixels along an edge of the images that it was trained with.
    pub image: u64,
    /// P.
    pub patch: u64,
    /// Added to the variance in norms.
    pub eps: f32,
    /// What stands within the feed-forward.
    pub act: Unary,
    /// What is the family's own.
    pub kind: ImageLayers,
}

impl ImageEncoder {
    /// Reads the keys that both families have. The width of the feed-forward is the family's to say.
    pub(super) fn read(
        checkpoint: &Checkpoint<'_>,
        family: &'static str,
        (patch, eps): (u64, f32),
        rest: impl FnOnce(&Keys<'_>, u64) -> Result<(u64, ImageLayers)>,
    ) -> Result<Self> {
        let keys = checkpoint.keys()?;
        transformers::common(&keys)?;
        keys.neutral(&[
            ("num_channels", CHANNELS as f64, "says that pixels are not red, green and blue"),
            ("qkv_bias", 1.0, "leaves out the biases of queries, keys and values"),
        ])?;
        let dim = keys.positive("hidden_size")?;
        let heads = keys.positive("num_attention_heads")?;
        encoder::head_dim(&keys, "num_attention_heads", dim, heads)?;
        let image = keys.opt_positive("image_size")?.unwrap_or(224);
        let patch = keys.opt_positive("patch_size")?.unwrap_or(patch);
        if patch > image {
            let what = format!("patches of {patch} pixels do not fit images of {image}");
            return Err(keys.bad("patch_size", what));
        }
        let (layers, eps) =
            (keys.layers("num_hidden_layers")?, keys.opt_f32("layer_norm_eps")?.unwrap_or(eps));
        let act = transformers::activation(&keys, "hidden_act", Unary::GeluErf)?;
        let (ffn_dim, kind) = rest(&keys, dim)?;
        keys.finish()?;
        Ok(ImageEncoder { family, layers, dim, ffn_dim, heads, image, patch, eps, act, kind })
    }

    /// Patches along an edge of an image that it was trained with.
    fn grid(&self) -> u64 {
        self.image / self.patch
    }

    fn registers(&self) -> u64 {
        match self.kind {
            ImageLayers::Vit => 0,
            ImageLayers::Dino { registers, .. } => registers,
        }
    }
}

impl Model for ImageEncoder {
    fn facts(&self) -> Facts {
        Facts {
            family: self.family,
            task: Task::Features,
            layers: self.layers,
            context: self.grid() * self.grid() + 1 + self.registers(),
            vocab: 0,
            width: self.dim,
        }
    }

    fn small(&self, layers: &[u64]) -> Box<dyn Model> {
        let width = self.dim / self.heads;
        let heads = encoder::fewer_heads(self.heads, width);
        Box::new(ImageEncoder {
            layers: layers.len() as u64,
            dim: heads * width,
            heads,
            ffn_dim: encoder::row(self.ffn_dim),
            ..self.clone()
        })
    }

    fn build(&self, tensors: &Tensors<'_>, _context: u64) -> Result<Module> {
        let mut m = Module::graph(self.family);
        let names = Names::of(tensors, self.kind);
        // What stands for a patch that is hidden while a model is trained.
        tensors.inert(|n| n == names.whole("embeddings.mask_token"));
        let mut x = self.embeddings(&mut m, tensors, &names)?;
        m.tap("layer.embed", x);
        for i in 0..self.layers {
            x = self.layer(&mut m, tensors, &names, (i, x))?;
            m.tap(format!("layer.{i}"), x);
        }
        let [scale, bias] = norm(tensors, &names.whole("layernorm"), self.dim)?;
        let x = m.layer_norm(x, scale, Some(bias), self.eps, "output_norm");
        m.output("hidden", x);
        self.vectors(&mut m, tensors, &names, x)?;
        Ok(m)
    }
}

impl ImageEncoder {
    /// The first row, registers, and patches, with the positions of the first and the patches.
    fn embeddings(&self, m: &mut Module, tensors: &Tensors<'_>, names: &Names) -> Result<Tensor> {
        let (batch, d, grid) = (Dim::symbol(BATCH), self.dim, self.grid());
        let [height, width] = match self.kind {
            ImageLayers::Vit => [Dim::from(self.image), Dim::from(self.image)],
            ImageLayers::Dino { .. } => SIZES.map(Dim::symbol),
        };
        let patch = Dim::from(self.patch);
        let rows = height.apply(DimOp::FloorDiv, &patch)?;
        let columns = width.apply(DimOp::FloorDiv, &patch)?;
        let dims = vec![batch.clone(), CHANNELS.into(), height, width];
        let pixels = m.input("pixel_values", Type::tensor(DType::F32, Shape(dims)));
        let mut get = |part: &str, dims: &[u64]| -> Result<Tensor> {
            let name = names.whole(&format!("embeddings.{part}"));
            Ok(f32_of(m, tensors.weight(&name, dims)?, part))
        };
        let projection = [
            get("patch_embeddings.projection.weight", &[d, CHANNELS, self.patch, self.patch])?,
            get("patch_embeddings.projection.bias", &[d])?,
        ];
        let class = get("cls_token", &[1, 1, d])?;
        let positions = get("position_embeddings", &[1, grid * grid + 1, d])?;
        let registers = match self.registers() {
            0 => None,
            n => Some(get("register_tokens", &[1, n, d])?),
        };
        let block = PatchEmbed { patch: self.patch as usize, bias: true };
        let patches = m.push(block, &[pixels, projection[0], projection[1]], "patch_embd");
        let part = |m: &mut Module, start: u64, len: u64, label: &str| {
            let (start, len) = (Dim::from(start), Dim::from(len));
            m.op(Slice { axis: 1, start, len, step: 1 }, &[positions], label)
        };
        let of_class = part(m, 0, 1, "position_class");
        let mut of_patches = part(m, 1, grid * grid, "position_patches");
        if let ImageLayers::Dino { antialias, .. } = self.kind {
            of_patches = resized(m, of_patches, [grid, d], [&rows, &columns], antialias)?;
        }
        let class = zip(m, Binary::Add, [class, of_class], "class_embd");
        let patches = zip(m, Binary::Add, [patches, of_patches], "patch_position_sum");
        let mut all = |x: Tensor, rows: u64, label: &str| {
            let dims = Shape(vec![batch.clone(), rows.into(), d.into()]);
            m.op(Expand { dims }, &[x], label)
        };
        let mut parts = vec![all(class, 1, "class_rows")];
        parts.extend(registers.map(|x| all(x, self.registers(), "register_rows")));
        parts.push(patches);
        Ok(m.op(Concat { axis: 1 }, &parts, "embd"))
    }

    fn layer(
        &self,
        m: &mut Module,
        tensors: &Tensors<'_>,
        names: &Names,
        (i, x): (u64, Tensor),
    ) -> Result<Tensor> {
        let d = self.dim;
        let at = |part: &str| names.whole(&format!("encoder.layer.{i}.{part}"));
        let linear =
            |part: &str, dims: [u64; 2]| tensors.linear_biased(&at(part), dims, Some(true));
        let label = format!("blk.{i}");
        let projections = [
            linear("attention.attention.query", [d, d])?,
            linear("attention.attention.key", [d, d])?,
            linear("attention.attention.value", [d, d])?,
            linear("attention.output.dense", [d, d])?,
        ];
        let attention = EncoderAttention {
            heads: self.heads as usize,
            kv_heads: self.heads as usize,
            head_dim: (d / self.heads) as usize,
            bias: true,
            mask: Mask::None,
            scale: None,
            softcap: None,
        };
        let scaled = |m: &mut Module, y: Tensor, part: &str, label: &str| -> Result<Tensor> {
            if self.kind == ImageLayers::Vit {
                return Ok(y);
            }
            let weight = tensors.weight(&at(part), &[d])?;
            let by = f32_of(m, weight, label);
            Ok(zip(m, Binary::Mul, [y, by], &format!("{label}_product")))
        };
        let [scale, bias] = norm(tensors, &at(names.norms[0]), d)?;
        let y = m.layer_norm(x, scale, Some(bias), self.eps, &format!("{label}.attn_norm"));
        let y = m.encoder_attention(y, projections, None, attention, &format!("{label}.attn"));
        let y = scaled(m, y, "layer_scale1.lambda1", &format!("{label}.attn_scale"))?;
        let x = m.add(y, x, &format!("{label}.attn_residual"));
        let [scale, bias] = norm(tensors, &at(names.norms[1]), d)?;
        let y = m.layer_norm(x, scale, Some(bias), self.eps, &format!("{label}.ffn_norm"));
        let f = self.ffn_dim;
        let y = match self.kind {
            ImageLayers::Dino { gated: true, .. } => {
                let both = linear("mlp.weights_in", [2 * f, d])?;
                let both = m.linear(y, both, &format!("{label}.ffn_in"));
                let mut half = |start: u64, name: &str| {
                    let (start, len) = (Dim::from(start), Dim::from(f));
                    let op = Slice { axis: 2, start, len, step: 1 };
                    m.op(op, &[both], &format!("{label}.ffn_{name}"))
                };
                let (gate, value) = (half(0, "gate"), half(f, "value"));
                let act = crate::ops::Map { f: Unary::Silu };
                let gate = m.op(act, &[gate], &format!("{label}.ffn_act"));
                let y = zip(m, Binary::Mul, [gate, value], &format!("{label}.ffn_gated"));
                m.linear(y, linear("mlp.weights_out", [d, f])?, &format!("{label}.ffn_out"))
            }
            _ => {
                let weights = [linear(names.ffn[0], [f, d])?, linear(names.ffn[1], [d, f])?];
                m.mlp(y, weights, self.act, &format!("{label}.ffn"))
            }
        };
        let y = scaled(m, y, "layer_scale2.lambda1", &format!("{label}.ffn_scale"))?;
        Ok(m.add(y, x, &format!("{label}.ffn_residual")))
    }

    /// `pooler_output` `[BATCH, D]`, and `logits` `[BATCH, C]` where the file has a classifier.
    fn vectors(
        &self,
        m: &mut Module,
        tensors: &Tensors<'_>,
        names: &Names,
        hidden: Tensor,
    ) -> Result<()> {
        let (d, row) = (self.dim, Shape(vec![Dim::symbol(BATCH), self.dim.into()]));
        let first = Slice { axis: 1, start: 0u64.into(), len: 1u64.into(), step: 1 };
        let first = m.op(first, &[hidden], "class");
        let class = m.op(Reshape { dims: row }, &[first], "class_row");
        match self.kind {
            ImageLayers::Dino { .. } => m.output("pooler_output", class),
            ImageLayers::Vit => {
                let pooler = names.whole("pooler.dense");
                if tensors.has(&format!("{pooler}.weight")) {
                    let dense = tensors.linear_biased(&pooler, [d, d], Some(true))?;
                    let y = m.linear_act(class, dense, Some(Unary::Tanh), "pooler");
                    m.output("pooler_output", y);
                }
            }
        }
        // A head for classes stands beside the encoder, without its prefix.
        let Some((_, &[classes, _])) = tensors.find("classifier.weight") else { return Ok(()) };
        let x = match self.kind {
            ImageLayers::Vit => class,
            ImageLayers::Dino { .. } => {
                let patches = self.patches_mean(m, hidden)?;
                m.op(Concat { axis: 1 }, &[class, patches], "classifier_in")
            }
        };
        let width = if self.kind == ImageLayers::Vit { d } else { 2 * d };
        let head = tensors.linear_biased("classifier", [classes, width], Some(true))?;
        let y = m.linear(x, head, "classifier");
        m.output("logits", y);
        Ok(())
    }

    /// The mean of all rows but the first, `[BATCH, D]`: registers are among them, as in the models' own
    /// head.
    fn patches_mean(&self, m: &mut Module, hidden: Tensor) -> Result<Tensor> {
        let patch = Dim::from(self.patch);
        let [rows, columns] = SIZES.map(|s| Dim::symbol(s).apply(DimOp::FloorDiv, &patch));
        let len = rows?.mul(&columns?)?.add(&self.registers().into())?;
        let rows = Slice { axis: 1, start: 1u64.into(), len, step: 1 };
        let rows = m.op(rows, &[hidden], "classifier_patches");
        let mean = Reduce { f: Reduction::Mean, axes: vec![1], keep: false };
        Ok(m.op(mean, &[rows], "classifier_mean"))
    }
}

/// Scale and bias of a norm.
fn norm(tensors: &Tensors<'_>, name: &str, dim: u64) -> Result<[Weight; 2]> {
    let [scale, bias] =
        ["weight", "bias"].map(|part| tensors.weight(&format!("{name}.{part}"), &[dim]));
    Ok([scale?, bias?])
}

/// A weight as f32, which images are.
fn f32_of(m: &mut Module, weight: Weight, label: &str) -> Tensor {
    let dtype = weight.ty.dtype;
    let x = m.weight(weight);
    match dtype {
        DType::F32 => x,
        _ => m.op(Cast { to: DType::F32 }, &[x], &format!("{label}_f32")),
    }
}

/// Names of tensors.
struct Names {
    /// What stands before every name of the encoder in a file that has a head beside it.
    prefix: String,
    /// The norms before attention and feed-forward.
    norms: [&'static str; 2],
    /// The feed-forward's linear layers.
    ffn: [&'static str; 2],
}

impl Names {
    fn of(tensors: &Tensors<'_>, kind: ImageLayers) -> Self {
        let (prefixes, norms, ffn): (&[&str], _, _) = match kind {
            ImageLayers::Vit => (
                &["vit."],
                ["layernorm_before", "layernorm_after"],
                ["intermediate.dense", "output.dense"],
            ),
            ImageLayers::Dino { .. } => {
                (&["dinov2.", "dinov2_with_registers."], ["norm1", "norm2"], ["mlp.fc1", "mlp.fc2"])
            }
        };
        let has = |p: &&&str| tensors.has(&format!("{p}embeddings.cls_token"));
        let prefix = prefixes.iter().find(has).map_or(String::new(), |p| p.to_string());
        Names { prefix, norms, ffn }
    }

    fn whole(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}
