//! Prompts and the decoder of masks: sections 3 and A of arXiv:2304.02643.

use super::make::{EPS, Make};
use super::{SamConfig, label};
use crate::error::Result;
use crate::ir::hir::{Module, Tensor};
use crate::models::tensors::Tensors;
use crate::ops::{
    BatchMatMul, Binary, Compare, Comparison, Constant, ConvTranspose, Select, Unary, Window,
};
use crate::types::{BATCH, DType, Dim, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Prompts of each image, and points of each prompt.
const PROMPTS: &str = "PROMPTS";
const POINTS: &str = "POINTS";

/// Added to the variance of the decoder's last norm, PyTorch's own number.
const LAST_EPS: f32 = 1e-5;

/// The axes that everything here has in front.
struct Sizes {
    batch: Dim,
    prompts: Dim,
    /// BATCH PROMPTS
    items: Dim,
    /// G G
    places: u64,
}

impl SamConfig {
    /// Masks of prompts; with `from_mask` an earlier mask is among what is shown.
    pub(super) fn mask(&self, tensors: &Tensors<'_>, from_mask: bool) -> Result<Module> {
        let name = if from_mask { super::MASK_FROM_MASK } else { super::MASK };
        let mut b = Make { m: Module::graph(name), tensors };
        // Both have the same values: the library ties them, and files may hold the one or both.
        tensors.inert(|n| n == "prompt_encoder.shared_embedding.positional_embedding");
        let (batch, prompts) = (Dim::symbol(BATCH), Dim::symbol(PROMPTS));
        let items = batch.mul(&prompts)?;
        let sizes = Sizes { batch, prompts, items, places: self.grid() * self.grid() };
        let (c, g) = (Dim::from(self.width), Dim::from(self.grid()));
        let dims = vec![sizes.batch.clone(), c, g.clone(), g];
        let image = b.m.input("image_embeddings", Type::tensor(DType::F32, Shape(dims)));
        let sparse = self.points(&mut b, &sizes)?;
        let dense = self.dense(&mut b, &sizes, from_mask)?;
        let image = b.add(image, dense, "mask_decoder.image");
        let [queries, keys] = self.two_way(&mut b, &sizes, sparse, image)?;
        self.outputs(&mut b, &sizes, queries, keys)?;
        Ok(b.m)
    }

    /// Sines and cosines of `at [.., 2]`, x and y of 0 to 1: random Fourier features (arXiv:2006.10739).
    fn fourier(&self, b: &mut Make<'_, '_>, at: Tensor, axis: usize, name: &str) -> Result<Tensor> {
        let table = "shared_image_embedding.positional_embedding";
        let table = b.tensor(table, &[2, self.width / 2])?;
        let at = b.scaled(at, 2.0, &format!("{name}.doubled"))?;
        let one = b.number(DType::F32, 1.0, &format!("{name}.one"))?;
        let at = b.zip(Binary::Sub, at, one, &format!("{name}.centred"));
        let at = b.m.op(BatchMatMul::default(), &[at, table], &format!("{name}.features"));
        let at = b.scaled(at, 2.0 * core::f64::consts::PI, &format!("{name}.angles"))?;
        let sin = b.map(Unary::Sin, at, &format!("{name}.sin"));
        let cos = b.map(Unary::Cos, at, &format!("{name}.cos"));
        Ok(b.concat(&[sin, cos], axis, name))
    }

    /// Embeddings `[BATCH, PROMPTS, POINTS, C]` of points and corners of boxes.
    fn points(&self, b: &mut Make<'_, '_>, sizes: &Sizes) -> Result<Tensor> {
        let mut dims = vec![sizes.batch.clone(), sizes.prompts.clone(), Dim::symbol(POINTS)];
        let labels = Type::tensor(DType::I32, Shape(dims.clone()));
        dims.push(Dim::from(2u64));
        let points = b.m.input("input_points", Type::tensor(DType::F32, Shape(dims.clone())));
        let labels = b.m.input("input_labels", labels);
        dims[3] = Dim::from(1u64);
        let labels = b.reshape(labels, &dims, "prompt_encoder.labels");
        // A pixel's place is its middle.
        let half = b.number(DType::F32, 0.5, "prompt_encoder.half")?;
        let points = b.add(points, half, "prompt_encoder.middles");
        let points = b.scaled(points, 1.0 / self.image as f64, "prompt_encoder.of_image")?;
        let mut x = self.fourier(b, points, 3, "prompt_encoder.shared_embedding")?;
        let of = |name: &str| format!("prompt_encoder.{name}.weight");
        let nothing = b.tensor(&of("not_a_point_embed"), &[1, self.width])?;
        let zero = b.number(DType::F32, 0.0, "prompt_encoder.zero")?;
        let labelled = |b: &mut Make<'_, '_>, n: i32, x: Tensor, y: Tensor| -> Result<Tensor> {
            let number = b.number(DType::I32, n.into(), &format!("prompt_encoder.label{n}"))?;
            let is = Compare { f: Comparison::Eq };
            let is = b.m.op(is, &[labels, number], &format!("prompt_encoder.is{n}"));
            Ok(b.m.op(Select, &[is, y, x], &format!("prompt_encoder.with{n}")))
        };
        x = labelled(b, label::NONE, x, nothing)?;
        x = labelled(b, label::PADDING, x, zero)?;
        for n in label::BESIDE..=label::BOTTOM_RIGHT {
            let kind = b.tensor(&of(&format!("point_embed.{n}")), &[1, self.width])?;
            let y = b.add(x, kind, &format!("prompt_encoder.kind{n}"));
            x = labelled(b, n, x, y)?;
        }
        b.m.tap("sub.prompt_encoder.out", x);
        Ok(x)
    }

    /// What is added to the image's places: `[1, C, 1, 1]` where no mask is shown, or `[BATCH, C, G, G]`.
    fn dense(&self, b: &mut Make<'_, '_>, sizes: &Sizes, from_mask: bool) -> Result<Tensor> {
        let c = self.width;
        if !from_mask {
            let none = b.tensor("prompt_encoder.no_mask_embed.weight", &[1, c])?;
            let dims = [1, c, 1, 1].map(Dim::from);
            return Ok(b.reshape(none, &dims, "prompt_encoder.no_mask"));
        }
        let edge = Dim::from(4 * self.grid());
        let dims = vec![sizes.batch.clone(), 1u64.into(), edge.clone(), edge];
        let mut x = b.m.input("input_masks", Type::tensor(DType::F32, Shape(dims)));
        let (few, many) = (self.mask_channels / 4, self.mask_channels);
        let halves = || Window::new(2).stride(&[2, 2]);
        let of = |part: &str| format!("prompt_encoder.mask_embed.{part}");
        for (i, [out, input]) in [(1, [few, 1]), (2, [many, few])] {
            x = b.conv(x, &of(&format!("conv{i}")), [out, input, 2], halves(), true)?;
            x = b.norm_2d(x, &of(&format!("layer_norm{i}")), out, self.mask_eps)?;
            x = b.map(self.mask_act, x, &of(&format!("act{i}")));
        }
        let x = b.conv(x, &of("conv3"), [c, many, 1], Window::new(2), true)?;
        b.m.tap("sub.prompt_encoder.mask_embed.out", x);
        Ok(x)
    }

    /// The transformer of two directions: tokens `[N, 1 + (M + 1) + POINTS, C]` see the image's places and these see
    /// the tokens. The image's rows are `[N, G G, C]`.
    fn two_way(
        &self,
        b: &mut Make<'_, '_>,
        sizes: &Sizes,
        sparse: Tensor,
        image: Tensor,
    ) -> Result<[Tensor; 2]> {
        let (c, decoder, own) = (self.width, &self.decoder, self.decoder.masks + 2);
        let score = b.tensor("mask_decoder.iou_token.weight", &[1, c])?;
        let masks = b.tensor("mask_decoder.mask_tokens.weight", &[own - 1, c])?;
        let tokens = b.concat(&[score, masks], 0, "mask_decoder.output_tokens");
        let dims = [sizes.batch.clone(), sizes.prompts.clone(), own.into(), c.into()];
        let tokens = b.expand(tokens, &dims, "mask_decoder.repeated_tokens");
        let tokens = b.concat(&[tokens, sparse], 2, "mask_decoder.tokens");
        let count = Dim::symbol(POINTS).add(&Dim::from(own))?;
        let first = b.reshape(tokens, &[sizes.items.clone(), count, c.into()], "mask_decoder.rows");
        let (places, one) = (Dim::from(sizes.places), Dim::from(1u64));
        let x = b.reshape(
            image,
            &[sizes.batch.clone(), one, c.into(), places.clone()],
            "mask_decoder.image_places",
        );
        let dims = [sizes.batch.clone(), sizes.prompts.clone(), c.into(), places.clone()];
        let x = b.expand(x, &dims, "mask_decoder.image_of_prompts");
        let x = b.reshape(x, &[sizes.items.clone(), c.into(), places], "mask_decoder.image_items");
        let mut keys = b.transpose(x, &[0, 2, 1], "mask_decoder.image_rows");
        let at = self.places(b)?;
        b.m.tap("image_positions", at);
        let mut queries = first;
        let (whole, cross) = ([c, c, decoder.heads], [c, decoder.cross, decoder.heads]);
        for i in 0..decoder.layers {
            let name = format!("mask_decoder.transformer.layers.{i}");
            let of = |part: &str| format!("{name}.{part}");
            // The first layer's tokens are their own positions already.
            queries = if i == 0 {
                b.attention([queries; 3], &of("self_attn"), whole)?
            } else {
                let q = b.add(queries, first, &of("self_positions"));
                let y = b.attention([q, q, queries], &of("self_attn"), whole)?;
                b.add(queries, y, &of("self_residual"))
            };
            queries = b.norm(queries, &of("layer_norm1"), c, decoder.eps)?;
            let q = b.add(queries, first, &of("query_positions"));
            let k = b.add(keys, at, &of("key_positions"));
            let y = b.attention([q, k, keys], &of("cross_attn_token_to_image"), cross)?;
            queries = b.add(queries, y, &of("cross_residual"));
            queries = b.norm(queries, &of("layer_norm2"), c, decoder.eps)?;
            let act = Some(decoder.act);
            let y = b.linear(queries, &of("mlp.lin1"), [decoder.ffn_dim, c], act)?;
            let y = b.linear(y, &of("mlp.lin2"), [c, decoder.ffn_dim], None)?;
            queries = b.add(queries, y, &of("mlp_residual"));
            queries = b.norm(queries, &of("layer_norm3"), c, decoder.eps)?;
            let q = b.add(queries, first, &of("token_positions"));
            let y = b.attention([k, q, queries], &of("cross_attn_image_to_token"), cross)?;
            keys = b.add(keys, y, &of("image_residual"));
            keys = b.norm(keys, &of("layer_norm4"), c, decoder.eps)?;
            b.m.tap(format!("sub.{name}.out"), queries);
            b.m.tap(format!("sub.{name}.out.1"), keys);
        }
        let of = |part: &str| format!("mask_decoder.transformer.{part}");
        let q = b.add(queries, first, &of("last_query_positions"));
        let k = b.add(keys, at, &of("last_key_positions"));
        let y = b.attention([q, k, keys], &of("final_attn_token_to_image"), cross)?;
        let queries = b.add(queries, y, &of("last_residual"));
        let queries = b.norm(queries, &of("layer_norm_final_attn"), c, LAST_EPS)?;
        b.m.tap("sub.mask_decoder.transformer.out", queries);
        b.m.tap("sub.mask_decoder.transformer.out.1", keys);
        Ok([queries, keys])
    }

    /// Positions of the image's places, `[G G, C]`.
    fn places(&self, b: &mut Make<'_, '_>) -> Result<Tensor> {
        let g = self.grid();
        let middle = |i: u64| (i as f32 + 0.5) / g as f32;
        let at: Vec<f32> =
            (0..g).flat_map(|y| (0..g).flat_map(move |x| [middle(x), middle(y)])).collect();
        let at = b.m.op(Constant::f32s(&[g * g, 2], &at)?, &[], "image_positions.middles");
        self.fourier(b, at, 1, "image_positions")
    }

    /// Masks of what the tokens became: each is a product of the image's places, four times as fine, with numbers
    /// that a small network makes of its token (a hypernetwork).
    fn outputs(
        &self,
        b: &mut Make<'_, '_>,
        sizes: &Sizes,
        queries: Tensor,
        keys: Tensor,
    ) -> Result<()> {
        let (c, g, masks) = (self.width, self.grid(), self.decoder.masks + 1);
        let of = |part: &str| format!("mask_decoder.{part}");
        let x = b.transpose(keys, &[0, 2, 1], &of("channels"));
        let dims = [sizes.items.clone(), c.into(), g.into(), g.into()];
        let x = b.reshape(x, &dims, &of("grid"));
        let x = twice(b, x, &of("upscale_conv1"), [c / 4, c])?;
        let x = b.norm_2d(x, &of("upscale_layer_norm"), c / 4, EPS)?;
        let x = b.map(Unary::GeluErf, x, &of("upscale_act1"));
        let x = twice(b, x, &of("upscale_conv2"), [c / 8, c / 4])?;
        let x = b.map(Unary::GeluErf, x, &of("upscale_act2"));
        let dims = [sizes.items.clone(), (c / 8).into(), (16 * g * g).into()];
        let x = b.reshape(x, &dims, &of("fine_places"));
        let mut factors = Vec::new();
        for i in 0..masks {
            let token = b.slice(queries, 1, 1 + i, Dim::from(1u64), &of(&format!("token{i}")));
            let name = of(&format!("output_hypernetworks_mlps.{i}"));
            factors.push(layers(b, token, &name, [c, c, c / 8], 3)?);
        }
        let factors = b.concat(&factors, 1, &of("factors"));
        let y = b.m.op(BatchMatMul::default(), &[factors, x], &of("masks"));
        let edge = Dim::from(4 * g);
        let (batch, prompts) = (sizes.batch.clone(), sizes.prompts.clone());
        let dims = [batch.clone(), prompts.clone(), masks.into(), edge.clone(), edge];
        let y = b.reshape(y, &dims, &of("all_masks"));
        let token = b.slice(queries, 1, 0, Dim::from(1u64), &of("score_token"));
        let widths = [c, self.decoder.score_dim, masks];
        let name = of("iou_prediction_head");
        let scores = layers(b, token, &name, widths, self.decoder.score_layers)?;
        let scores = b.reshape(scores, &[batch, prompts, masks.into()], &of("all_scores"));
        // The first is the answer to what means one thing.
        for (x, several, single) in
            [(y, "pred_masks", "single_mask"), (scores, "iou_scores", "single_score")]
        {
            let rest = b.slice(x, 2, 1, (masks - 1).into(), &of(several));
            b.m.output(several, rest);
            let first = b.slice(x, 2, 0, Dim::from(1u64), &of(single));
            b.m.output(single, first);
        }
        Ok(())
    }
}

/// A transposed convolution of 2 by 2 that makes the grid twice as fine.
fn twice(b: &mut Make<'_, '_>, x: Tensor, name: &str, [out, input]: [u64; 2]) -> Result<Tensor> {
    let weight = b.tensor(&format!("{name}.weight"), &[input, out, 2, 2])?;
    let bias = b.tensor(&format!("{name}.bias"), &[out])?;
    let window = Window::new(2).stride(&[2, 2]);
    let op = ConvTranspose { window, extra: vec![0, 0], groups: 1, bias: true };
    Ok(b.m.op(op, &[x, weight, bias], name))
}

/// `count` linear layers, 2 at least, with `relu` between them; widths are in, between, out.
fn layers(
    b: &mut Make<'_, '_>,
    x: Tensor,
    name: &str,
    [input, between, out]: [u64; 3],
    count: u64,
) -> Result<Tensor> {
    let act = Some(Unary::Relu);
    let mut x = b.linear(x, &format!("{name}.proj_in"), [between, input], act)?;
    for i in 0..count.saturating_sub(2) {
        x = b.linear(x, &format!("{name}.layers.{i}"), [between; 2], act)?;
    }
    b.linear(x, &format!("{name}.proj_out"), [out, between], None)
}
