//! Prompts and the decoder of masks: sections 3 and A of arXiv:2304.02643.

use super::label;
use super::make::{EPS, Make, OUT_PROJ};
use crate::error::Result;
use crate::ir::hir::{Module, Tensor};
use crate::models::tensors::Tensors;
use crate::ops::{
    BatchMatMul, Binary, Cast, Compare, Comparison, Constant, Reduce, Reduction, Select, Unary,
    Window,
};
use crate::types::{BATCH, DType, Dim, Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Prompts of each image, and points of each prompt.
const PROMPTS: &str = "PROMPTS";
const POINTS: &str = "POINTS";

/// Added to the variance of the decoder's last norm, PyTorch's own number.
pub(in crate::models) const LAST_EPS: f32 = 1e-5;

/// Tables of random features: of the image's places, and of points where they have their own.
const OF_IMAGE: &str = "shared_image_embedding.positional_embedding";
const OF_POINTS: &str = "prompt_encoder.shared_embedding.positional_embedding";

/// Sizes and constants of all that follows an image's encoder.
#[derive(Clone, Debug, PartialEq)]
pub struct MaskNetwork {
    /// Pixels along an edge of the image.
    pub image: u64,
    /// Places along an edge of the grid: G.
    pub grid: u64,
    /// C.
    pub width: u64,
    /// Channels within the network of earlier masks, a multiple of 4.
    pub mask_channels: u64,
    /// What stands between its convolutions.
    pub mask_act: Unary,
    /// Added to the variance in its norms.
    pub mask_eps: f32,
    /// The decoder of masks.
    pub decoder: MaskDecoder,
    /// What SAM 2 has more.
    pub second: Option<Second>,
}

/// What SAM 2 has more (arXiv:2408.00714): finer features of the image are added where masks are made, scores are
/// from 0 to 1, and the model says whether the thing is there at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Second {
    /// The answer to a prompt that means one thing is the best of the other masks if it is not stable: if the share of
    /// logits above the first number among those above its opposite is less than the second.
    pub stable: Option<[f32; 2]>,
    /// Linear layers of the feed-forward.
    pub ffn_layers: u64,
}

/// Sizes and constants of the decoder of masks.
#[derive(Clone, Debug, PartialEq)]
pub struct MaskDecoder {
    /// Its layers, each of two directions.
    pub layers: u64,
    /// Its heads.
    pub heads: u64,
    /// Width within its feed-forward.
    pub ffn_dim: u64,
    /// What stands within its feed-forward.
    pub act: Unary,
    /// Width of attention between tokens and image: C divided by the configured rate.
    pub cross: u64,
    /// Added to the variance in norms of its layers.
    pub eps: f32,
    /// M.
    pub masks: u64,
    /// Linear layers that make the scores.
    pub score_layers: u64,
    /// Width between them.
    pub score_dim: u64,
}

/// The axes that everything here has in front.
pub(super) struct Sizes {
    pub batch: Dim,
    pub prompts: Dim,
    /// BATCH PROMPTS
    pub items: Dim,
    /// G G
    pub places: u64,
}

impl MaskNetwork {
    /// Masks of prompts; with `from_mask` an earlier mask is among what is shown.
    pub(in crate::models) fn module(
        &self,
        tensors: &Tensors<'_>,
        from_mask: bool,
    ) -> Result<Module> {
        let name = if from_mask { super::MASK_FROM_MASK } else { super::MASK };
        let out_proj = if self.second.is_some() { "o_proj" } else { OUT_PROJ };
        let mut b = Make { m: Module::graph(name), tensors, out_proj, prefix: "" };
        if self.second.is_none() {
            // Both have the same values: the library ties them, and files may hold the one or both.
            tensors.inert(|n| n == OF_POINTS);
        }
        let (batch, prompts) = (Dim::symbol(BATCH), Dim::symbol(PROMPTS));
        let items = batch.mul(&prompts)?;
        let sizes = Sizes { batch, prompts, items, places: self.grid * self.grid };
        let [queries, keys] = self.decoded_rows(&mut b, &sizes, from_mask)?;
        let all = self.all(&mut b, &sizes, queries, keys)?;
        if self.second.is_some() {
            let x = self.object(&mut b, &sizes, queries)?;
            b.m.output("object_score_logits", x);
        }
        for (x, several) in all.into_iter().zip(["pred_masks", "iou_scores"]) {
            let rest =
                b.slice(x, 2, 1, self.decoder.masks.into(), &format!("mask_decoder.{several}"));
            b.m.output(several, rest);
        }
        let [mask, score] = self.single(&mut b, &sizes, all)?;
        b.m.output("single_mask", mask);
        b.m.output("single_score", score);
        Ok(b.m)
    }

    /// What tokens and the image's places become of each other, after an input of the image and of what is shown.
    pub(super) fn decoded_rows(
        &self,
        b: &mut Make<'_, '_>,
        sizes: &Sizes,
        from_mask: bool,
    ) -> Result<[Tensor; 2]> {
        let (c, g) = (Dim::from(self.width), Dim::from(self.grid));
        let dims = vec![sizes.batch.clone(), c, g.clone(), g];
        let image = b.m.input("image_embeddings", Type::tensor(DType::F32, Shape(dims)));
        let sparse = self.points(b, sizes)?;
        let dense = self.dense(b, sizes, from_mask)?;
        let image = b.add(image, dense, "mask_decoder.image");
        self.two_way(b, sizes, sparse, image)
    }

    /// Sines and cosines of `at [.., 2]`, x and y of 0 to 1: random Fourier features (arXiv:2006.10739).
    fn fourier(
        &self,
        b: &mut Make<'_, '_>,
        at: Tensor,
        axis: usize,
        [table, name]: [&str; 2],
    ) -> Result<Tensor> {
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
        let table = if self.second.is_some() { OF_POINTS } else { OF_IMAGE };
        let mut x = self.fourier(b, points, 3, [table, "prompt_encoder.shared_embedding"])?;
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
        let kinds = match self.second {
            Some(_) => Some(b.tensor(&of("point_embed"), &[4, self.width])?),
            None => None,
        };
        for n in label::BESIDE..=label::BOTTOM_RIGHT {
            let kind = match kinds {
                Some(all) => {
                    let name = format!("prompt_encoder.point_embed{n}");
                    b.slice(all, 0, n as u64, 1u64.into(), &name)
                }
                None => b.tensor(&of(&format!("point_embed.{n}")), &[1, self.width])?,
            };
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
        let edge = Dim::from(4 * self.grid);
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
        let (c, decoder, first) = (self.width, &self.decoder, self.first());
        let own = first + 2 + decoder.masks;
        let score = b.tensor("mask_decoder.iou_token.weight", &[1, c])?;
        let masks = b.tensor("mask_decoder.mask_tokens.weight", &[decoder.masks + 1, c])?;
        let mut tokens = Vec::from([score, masks]);
        if first == 1 {
            tokens.insert(0, b.tensor("mask_decoder.obj_score_token.weight", &[1, c])?);
        }
        let tokens = b.concat(&tokens, 0, "mask_decoder.output_tokens");
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
            let y = match &self.second {
                Some(second) => {
                    let widths = [c, decoder.ffn_dim, c];
                    layers(b, queries, &of("mlp"), widths, second.ffn_layers)?
                }
                None => {
                    let act = Some(decoder.act);
                    let y = b.linear(queries, &of("mlp.lin1"), [decoder.ffn_dim, c], act)?;
                    b.linear(y, &of("mlp.lin2"), [c, decoder.ffn_dim], None)?
                }
            };
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

    /// Where the token of the scores stands: behind the one that says whether the thing is there, if there is one.
    pub(super) fn first(&self) -> u64 {
        u64::from(self.second.is_some())
    }

    /// Positions of the image's places, `[G G, C]`.
    fn places(&self, b: &mut Make<'_, '_>) -> Result<Tensor> {
        let g = self.grid;
        let middle = |i: u64| (i as f32 + 0.5) / g as f32;
        let at: Vec<f32> =
            (0..g).flat_map(|y| (0..g).flat_map(move |x| [middle(x), middle(y)])).collect();
        let at = b.m.op(Constant::f32s(&[g * g, 2], &at)?, &[], "image_positions.middles");
        self.fourier(b, at, 1, [OF_IMAGE, "image_positions"])
    }

    /// Masks of what the tokens became: each is a product of the image's places, four times as fine, with numbers
    /// that a small network makes of its token (a hypernetwork). The first is the answer to what means one thing.
    /// Answers with `[BATCH, PROMPTS, M + 1, 4 G, 4 G]` and the scores of all `[BATCH, PROMPTS, M + 1]`.
    pub(super) fn all(
        &self,
        b: &mut Make<'_, '_>,
        sizes: &Sizes,
        queries: Tensor,
        keys: Tensor,
    ) -> Result<[Tensor; 2]> {
        let (c, g, masks) = (self.width, self.grid, self.decoder.masks + 1);
        let of = |part: &str| format!("mask_decoder.{part}");
        let x = b.transpose(keys, &[0, 2, 1], &of("channels"));
        let dims = [sizes.items.clone(), c.into(), g.into(), g.into()];
        let x = b.reshape(x, &dims, &of("grid"));
        let mut x = b.twice(x, &of("upscale_conv1"), [c / 4, c])?;
        if self.second.is_some() {
            x = self.with_finer(b, sizes, x, super::MIDDLE, [c / 4, 2 * g])?;
        }
        let x = b.norm_2d(x, &of("upscale_layer_norm"), c / 4, EPS)?;
        let x = b.map(Unary::GeluErf, x, &of("upscale_act1"));
        let mut x = b.twice(x, &of("upscale_conv2"), [c / 8, c / 4])?;
        if self.second.is_some() {
            x = self.with_finer(b, sizes, x, super::FINE, [c / 8, 4 * g])?;
        }
        let x = b.map(Unary::GeluErf, x, &of("upscale_act2"));
        let dims = [sizes.items.clone(), (c / 8).into(), (16 * g * g).into()];
        let x = b.reshape(x, &dims, &of("fine_places"));
        let (mut factors, start) = (Vec::new(), self.first());
        for i in 0..masks {
            let label = of(&format!("token{i}"));
            let token = b.slice(queries, 1, start + 1 + i, Dim::from(1u64), &label);
            let name = of(&format!("output_hypernetworks_mlps.{i}"));
            factors.push(layers(b, token, &name, [c, c, c / 8], 3)?);
        }
        let factors = b.concat(&factors, 1, &of("factors"));
        let y = b.m.op(BatchMatMul::default(), &[factors, x], &of("masks"));
        let edge = Dim::from(4 * g);
        let (batch, prompts) = (sizes.batch.clone(), sizes.prompts.clone());
        let dims = [batch.clone(), prompts.clone(), masks.into(), edge.clone(), edge];
        let y = b.reshape(y, &dims, &of("all_masks"));
        let token = b.slice(queries, 1, start, Dim::from(1u64), &of("score_token"));
        let widths = [c, self.decoder.score_dim, masks];
        let name = of("iou_prediction_head");
        let mut scores = layers(b, token, &name, widths, self.decoder.score_layers)?;
        if self.second.is_some() {
            scores = b.map(Unary::Sigmoid, scores, &of("scores"));
        }
        let scores = b.reshape(scores, &[batch, prompts, masks.into()], &of("all_scores"));
        Ok([y, scores])
    }

    /// How sure it is that the thing is there, `[BATCH, PROMPTS, 1]`: above 0 where it is.
    pub(super) fn object(
        &self,
        b: &mut Make<'_, '_>,
        sizes: &Sizes,
        queries: Tensor,
    ) -> Result<Tensor> {
        let (c, of) = (self.width, |part: &str| format!("mask_decoder.{part}"));
        let token = b.slice(queries, 1, 0, Dim::from(1u64), &of("object_token"));
        let x = layers(b, token, &of("pred_obj_score_head"), [c, c, 1], 3)?;
        let dims = [sizes.batch.clone(), sizes.prompts.clone(), 1u64.into()];
        Ok(b.reshape(x, &dims, &of("object")))
    }

    /// The mask and score that answer a prompt which means one thing.
    pub(super) fn single(
        &self,
        b: &mut Make<'_, '_>,
        sizes: &Sizes,
        all: [Tensor; 2],
    ) -> Result<[Tensor; 2]> {
        let mut first = |x, several| {
            b.slice(x, 2, 0, Dim::from(1u64), &format!("mask_decoder.{several}_first"))
        };
        let single = [first(all[0], "pred_masks"), first(all[1], "iou_scores")];
        match self.second {
            Some(Second { stable: Some(stable), .. }) => self.stable(b, sizes, all, single, stable),
            _ => Ok(single),
        }
    }

    /// The best of the masks but the first, which is the earliest of the highest score: its mask, its score and, of
    /// `tokens [N, tokens, C]` if they are given, its token.
    pub(super) fn best(
        &self,
        b: &mut Make<'_, '_>,
        sizes: &Sizes,
        [masks, scores]: [Tensor; 2],
        tokens: Option<Tensor>,
    ) -> [Tensor; 3] {
        let of = |part: String| format!("mask_decoder.best.{part}");
        let (batch, prompts, one) = (sizes.batch.clone(), sizes.prompts.clone(), Dim::from(1u64));
        let deep = [batch, prompts, one.clone(), one.clone(), one.clone()];
        let wide = [sizes.items.clone(), one.clone(), one.clone()];
        let of_mask = |b: &mut Make<'_, '_>, i: u64| {
            let mask = b.slice(masks, 2, i, one.clone(), &of(format!("mask{i}")));
            let score = b.slice(scores, 2, i, one.clone(), &of(format!("score{i}")));
            let at = self.first() + 1 + i;
            let token = tokens.map(|x| b.slice(x, 1, at, one.clone(), &of(format!("token{i}"))));
            (mask, score, token)
        };
        let (mut mask, mut score, mut token) = of_mask(b, 1);
        for i in 2..=self.decoder.masks {
            let (other, most, its) = of_mask(b, i);
            let is = Compare { f: Comparison::Gt };
            let is = b.m.op(is, &[most, score], &of(format!("better{i}")));
            score = b.m.op(Select, &[is, most, score], &of(format!("most{i}")));
            let deep = b.reshape(is, &deep, &of(format!("better_deep{i}")));
            mask = b.m.op(Select, &[deep, other, mask], &of(format!("best{i}")));
            if let (Some(x), Some(its)) = (token, its) {
                let is = b.reshape(is, &wide, &of(format!("better_wide{i}")));
                token = Some(b.m.op(Select, &[is, its, x], &of(format!("best_token{i}"))));
            }
        }
        [mask, score, token.unwrap_or(score)]
    }

    /// `x [N, channels, edge, edge]` and the same features of the image of each prompt.
    fn with_finer(
        &self,
        b: &mut Make<'_, '_>,
        sizes: &Sizes,
        x: Tensor,
        name: &str,
        [channels, edge]: [u64; 2],
    ) -> Result<Tensor> {
        let (batch, prompts) = (sizes.batch.clone(), sizes.prompts.clone());
        let (c, e) = (Dim::from(channels), Dim::from(edge));
        let dims = vec![batch.clone(), c.clone(), e.clone(), e.clone()];
        let finer = b.m.input(name, Type::tensor(DType::F32, Shape(dims)));
        let of = |part: &str| format!("mask_decoder.{name}.{part}");
        let dims = [batch.clone(), 1u64.into(), c.clone(), e.clone(), e.clone()];
        let finer = b.reshape(finer, &dims, &of("one"));
        let finer =
            b.expand(finer, &[batch, prompts, c.clone(), e.clone(), e.clone()], &of("each"));
        let finer = b.reshape(finer, &[sizes.items.clone(), c, e.clone(), e], &of("items"));
        Ok(b.add(x, finer, &of("sum")))
    }

    /// The mask and score that answer a prompt which means one thing: the first, or the best of the others where the
    /// first is not stable.
    fn stable(
        &self,
        b: &mut Make<'_, '_>,
        sizes: &Sizes,
        [masks, scores]: [Tensor; 2],
        [mask, score]: [Tensor; 2],
        [delta, least]: [f32; 2],
    ) -> Result<[Tensor; 2]> {
        let of = |part: &str| format!("mask_decoder.stable.{part}");
        let (batch, prompts, one) = (sizes.batch.clone(), sizes.prompts.clone(), Dim::from(1u64));
        let flat = [batch, prompts, one];
        let holds =
            |b: &mut Make<'_, '_>, f, x, y, name: &str| b.m.op(Compare { f }, &[x, y], &of(name));
        let [best, most, _] = self.best(b, sizes, [masks, scores], None);
        let above = |b: &mut Make<'_, '_>, x: f32, name: &str| -> Result<Tensor> {
            let edge = b.number(DType::F32, x.into(), &of(&format!("{name}_edge")))?;
            let is = holds(b, Comparison::Gt, mask, edge, &format!("{name}_is"));
            let one = b.m.op(Cast { to: DType::F32 }, &[is], &of(&format!("{name}_one")));
            let sum = Reduce { f: Reduction::Sum, axes: vec![3, 4], keep: true };
            Ok(b.m.op(sum, &[one], &of(name)))
        };
        let (sure, likely) = (above(b, delta, "sure")?, above(b, -delta, "likely")?);
        let share = b.zip(Binary::Div, sure, likely, &of("share"));
        let zero = b.number(DType::F32, 0.0, &of("zero"))?;
        let whole = b.number(DType::F32, 1.0, &of("whole"))?;
        // A mask of nothing is stable.
        let some = holds(b, Comparison::Gt, likely, zero, "some");
        let share = b.m.op(Select, &[some, share, whole], &of("share_or_whole"));
        let least = b.number(DType::F32, least.into(), &of("least"))?;
        let is = holds(b, Comparison::Ge, share, least, "is");
        let mask = b.m.op(Select, &[is, mask, best], &of("mask"));
        let is = b.reshape(is, &flat, &of("is_flat"));
        Ok([mask, b.m.op(Select, &[is, score, most], &of("score"))])
    }
}

/// `count` linear layers, 2 at least, with `relu` between them; widths are in, between, out.
pub(super) fn layers(
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
