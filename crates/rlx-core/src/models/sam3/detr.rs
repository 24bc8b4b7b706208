//! What finds things: the image's places see the prompt, then Q queries see the prompt and the places, and each becomes
//! a thing's box (DETR, arXiv:2005.12872). Boxes move from layer to layer (arXiv:2010.04159), queries are told where
//! theirs is (arXiv:2201.12329), and a place is seen better or worse for its distance from the box's edges
//! (arXiv:2308.04752). One row more says whether there is any such thing.

use super::super::sam::{FINE, MIDDLE, Make};
use super::super::tensors::Tensors;
use super::{
    DETECT, DETECT_FROM_BOXES, EPS, Prompt, Sam3Config, TOKENS, frequencies, mlp, sines, steps,
};
use crate::error::Result;
use crate::ir::hir::{Module, Tensor};
use crate::ops::{Binary, Cast, Clamp, Constant, Mask, Pad, PadMode, Unary};
use crate::types::{BATCH, DType, Dim, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Bounds of a box's numbers where they leave the sigmoid, and of whether there is any thing.
const LEAST: f32 = 1e-3;
const PRESENCE_MOST: f32 = 10.0;

/// What an image gives.
#[derive(Clone, Copy)]
pub(super) struct Image {
    /// `[BATCH, C, 4 G, 4 G]`, `[BATCH, C, 2 G, 2 G]`.
    pub finer: [Tensor; 2],
    /// Its places, `[BATCH, G G, C]`.
    pub rows: Tensor,
    /// Their positions, `[G G, C]`.
    pub positions: Tensor,
}

/// What was found.
pub(super) struct Found {
    /// Rows of the things, `[BATCH, Q, C]`.
    pub rows: Tensor,
    /// Left, top, right, bottom, `[BATCH, Q, 4]`.
    pub boxes: Tensor,
    /// `[BATCH, 1]`.
    pub presence: Tensor,
}

impl Sam3Config {
    /// What a prompt means in an image; `from_boxes`: boxes are among the prompt.
    pub(super) fn detect(&self, tensors: &Tensors<'_>, from_boxes: bool) -> Result<Module> {
        let name = if from_boxes { DETECT_FROM_BOXES } else { DETECT };
        let (mut b, batch) = (self.make(name, tensors), Dim::symbol(BATCH));
        let (c, g) = (self.width, self.image.grid);
        let mut seen = |name: &str, edge: u64| {
            let dims = vec![batch.clone(), c.into(), edge.into(), edge.into()];
            b.m.input(name, Type::tensor(DType::F32, Shape(dims)))
        };
        let finer = [seen(FINE, 4 * g), seen(MIDDLE, 2 * g)];
        let x = seen("image_embeddings", g);
        let x = b.reshape(x, &[batch.clone(), c.into(), (g * g).into()], "image.places");
        let rows = b.transpose(x, &[0, 2, 1], "image.rows");
        let positions = self.image_positions(&mut b)?;
        let image = Image { finer, rows, positions };
        let mut prompt = self.words(&mut b);
        if from_boxes {
            let boxes = self.boxes(&mut b, image)?;
            let rows = b.concat(&[prompt.rows, boxes.rows], 1, "prompt.rows");
            let seen = b.concat(&[prompt.seen, boxes.seen], 1, "prompt.seen");
            prompt = Prompt { rows, seen, count: prompt.count.add(&boxes.count)? };
        }
        let places = self.places(&mut b, image, &prompt)?;
        let found = self.find(&mut b, Image { rows: places, ..image }, &prompt)?;
        let scores = self.scores(&mut b, found.rows, &prompt)?;
        let [masks, all] =
            self.masks(&mut b, Image { rows: places, ..image }, found.rows, &prompt)?;
        for (name, x) in [
            ("pred_masks", masks),
            ("pred_boxes", found.boxes),
            ("pred_logits", scores),
            ("presence_logits", found.presence),
            ("semantic_seg", all),
        ] {
            b.m.output(name, x);
        }
        Ok(b.m)
    }

    /// The words of the prompt.
    fn words(&self, b: &mut Make<'_, '_>) -> Prompt {
        let (batch, tokens) = (Dim::symbol(BATCH), Dim::symbol(TOKENS));
        let dims = Shape(vec![batch.clone(), tokens.clone(), self.width.into()]);
        let rows = b.m.input("text_embeddings", Type::tensor(DType::F32, dims));
        let dims = Shape(vec![batch, tokens.clone()]);
        let seen = b.m.input("attention_mask", Type::tensor(DType::U32, dims));
        let seen = b.m.op(Cast { to: DType::BOOL }, &[seen], "text.real");
        let seen = b.m.op(Cast { to: DType::F32 }, &[seen], "text.seen");
        Prompt { rows, seen, count: tokens }
    }

    /// Positions of the image's places, `[G G, C]`: sines and cosines of the row, then of the column, from 1 to G, of
    /// which G is one turn.
    fn image_positions(&self, b: &mut Make<'_, '_>) -> Result<Tensor> {
        let (c, g) = (self.width, self.image.grid);
        let turns = frequencies(c / 2, 2.0 * core::f64::consts::PI / (g as f64 + 1e-6));
        let of = |i: u64| {
            let both = |f: &f64| {
                let angle = (i + 1) as f64 * f;
                [crate::math::sin(angle) as f32, crate::math::cos(angle) as f32]
            };
            turns.iter().flat_map(both).collect::<Vec<f32>>()
        };
        let list: Vec<f32> = (0..g).flat_map(of).collect();
        let list = b.m.op(Constant::f32s(&[g, c / 2], &list)?, &[], "image.axis");
        let whole = [g, g, c / 2].map(Dim::from);
        let rows = b.reshape(list, &[g, 1, c / 2].map(Dim::from), "image.row_of");
        let rows = b.expand(rows, &whole, "image.row");
        let columns = b.expand(list, &whole, "image.column");
        let both = b.concat(&[rows, columns], 2, "image.grid_positions");
        Ok(b.reshape(both, &[g * g, c].map(Dim::from), "image.positions"))
    }

    /// The image's places once they saw the prompt, `[BATCH, G G, C]`.
    fn places(&self, b: &mut Make<'_, '_>, image: Image, prompt: &Prompt) -> Result<Tensor> {
        let (c, layers) = (self.width, &self.encoder);
        let widths = [c, c, layers.heads];
        let mut x = image.rows;
        for i in 0..layers.layers {
            let name = format!("detr_encoder.layers.{i}");
            let of = |part: &str| format!("{name}.{part}");
            let y = b.norm(x, &of("layer_norm1"), c, EPS)?;
            let at = b.add(y, image.positions, &of("positions"));
            let y = b.attention([at, at, y], &of("self_attn"), widths)?;
            x = b.add(x, y, &of("self_residual"));
            let y = b.norm(x, &of("layer_norm2"), c, EPS)?;
            let rows = [y, prompt.rows, prompt.rows];
            let y = b.attention_to(rows, &of("cross_attn"), widths, prompt.mask())?;
            x = b.add(x, y, &of("cross_residual"));
            let y = b.norm(x, &of("layer_norm3"), c, EPS)?;
            let y = mlp(b, y, &of("mlp"), [c, layers.ffn_dim], layers.act)?;
            x = b.add(x, y, &of("mlp_residual"));
            b.m.tap(format!("sub.{name}.out"), x);
        }
        Ok(x)
    }

    /// The decoder: things, their boxes, and whether there is any.
    fn find(&self, b: &mut Make<'_, '_>, image: Image, prompt: &Prompt) -> Result<Found> {
        let (c, q, layers) = (self.width, self.queries, &self.decoder);
        let (batch, one) = (Dim::symbol(BATCH), Dim::from(1u64));
        let of = |part: &str| format!("detr_decoder.{part}");
        let widths = [c, c, layers.heads];
        let presence = b.tensor(&of("presence_token.weight"), &[1, c])?;
        let queries = b.tensor(&of("query_embed.weight"), &[q, c])?;
        let all = b.concat(&[presence, queries], 0, &of("tokens"));
        let mut x = b.expand(all, &[batch.clone(), (q + 1).into(), c.into()], &of("rows"));
        let boxes = b.tensor(&of("reference_points.weight"), &[q, 4])?;
        let boxes = b.map(Unary::Sigmoid, boxes, &of("first_box"));
        let mut boxes =
            b.expand(boxes, &[batch.clone(), q.into(), 4u64.into()], &of("first_boxes"));
        let keys = b.add(image.rows, image.positions, &of("keys"));
        let mut things = x;
        for i in 0..layers.layers {
            let name = of(&format!("layers.{i}"));
            let at = |part: &str| format!("{name}.{part}");
            let own = self.box_positions(b, boxes, &name)?;
            let distances = self.distances(b, boxes, &name)?;
            let with = b.add(x, own, &at("self_positions"));
            let y = b.attention([with, with, x], &at("self_attn"), widths)?;
            x = b.add(x, y, &at("self_residual"));
            x = b.norm(x, &at("self_attn_layer_norm"), c, EPS)?;
            let with = b.add(x, own, &at("text_positions"));
            let to = [with, prompt.rows, prompt.rows];
            let y = b.attention_to(to, &at("text_cross_attn"), widths, prompt.mask())?;
            x = b.add(x, y, &at("text_residual"));
            x = b.norm(x, &at("text_cross_attn_layer_norm"), c, EPS)?;
            let with = b.add(x, own, &at("vision_positions"));
            let (to, near) = ([with, keys, image.rows], (Mask::Bias, Some(distances)));
            let y = b.attention_to(to, &at("vision_cross_attn"), widths, near)?;
            x = b.add(x, y, &at("vision_residual"));
            x = b.norm(x, &at("vision_cross_attn_layer_norm"), c, EPS)?;
            let y = mlp(b, x, &at("mlp"), [c, layers.ffn_dim], layers.act)?;
            x = b.add(x, y, &at("mlp_residual"));
            x = b.norm(x, &at("mlp_layer_norm"), c, EPS)?;
            b.m.tap(format!("sub.{name}.out"), x);
            things = b.slice(x, 1, 1, q.into(), &at("things"));
            things = b.norm(things, &of("output_layer_norm"), c, EPS)?;
            let moved = steps(b, things, &of("box_head"), &[c, c, c, 4])?;
            let before = unsigmoid(b, boxes, &name)?;
            let after = b.add(moved, before, &at("box_logits"));
            boxes = b.map(Unary::Sigmoid, after, &at("boxes"));
        }
        let y = b.slice(x, 1, 0, one.clone(), &of("presence"));
        let y = b.norm(y, &of("presence_layer_norm"), c, EPS)?;
        let y = steps(b, y, &of("presence_head"), &[c, c, c, 1])?;
        let most = Clamp { min: -PRESENCE_MOST, max: PRESENCE_MOST };
        let y = b.m.op(most, &[y], &of("presence_bounded"));
        let presence = b.reshape(y, &[batch, one], &of("presence_logits"));
        Ok(Found { rows: things, boxes: corners(b, boxes, &of("pred"))?, presence })
    }

    /// What tells queries where their box is, `[BATCH, 1 + Q, C]`; the first row is told nothing.
    fn box_positions(&self, b: &mut Make<'_, '_>, boxes: Tensor, name: &str) -> Result<Tensor> {
        let (c, q) = (self.width, self.queries);
        let of = |part: &str| format!("{name}.{part}");
        let mut part =
            |at: u64, len: u64, label: &str| b.slice(boxes, 2, at, len.into(), &of(label));
        // The middle's row comes before its column.
        let parts = [part(1, 1, "box_y"), part(0, 1, "box_x"), part(2, 2, "box_size")];
        let at = b.concat(&parts, 2, &of("box_numbers"));
        let sizes = [Dim::symbol(BATCH), q.into()];
        let at = sines(b, at, &of("box_sines"), sizes, [4, c / 2])?;
        let at = steps(b, at, "detr_decoder.ref_point_head", &[2 * c, c, c])?;
        Ok(front(b, at, vec![0, 1, 0], &of("box_positions")))
    }

    /// What is added to the scores of places, `[BATCH, H, 1 + Q, G G]`: the sum of what a small network makes of a
    /// column's distances from the left and right of the box, and another of a row's from its top and bottom. The
    /// first row sees every place as well.
    fn distances(&self, b: &mut Make<'_, '_>, boxes: Tensor, name: &str) -> Result<Tensor> {
        let (q, g, h) = (self.queries, self.image.grid, self.decoder.heads);
        let (batch, rows) = (Dim::symbol(BATCH), Dim::from(q + 1));
        let edges = corners(b, boxes, name)?;
        let at: Vec<f32> = (0..g).map(|i| i as f32 / g as f32).collect();
        let at = b.m.op(Constant::f32s(&[g, 1], &at)?, &[], &format!("{name}.places"));
        let mut sides = Vec::new();
        for (axis, first) in [("x", 0), ("y", 1)] {
            let of = |part: &str| format!("{name}.{part}_{axis}");
            let mut edge = |i, label: &str| b.slice(edges, 2, i, 1u64.into(), &of(label));
            let both = [edge(first, "low"), edge(first + 2, "high")];
            let both = b.concat(&both, 2, &of("edges"));
            let dims = [batch.clone(), q.into(), 1u64.into(), 2u64.into()];
            let both = b.reshape(both, &dims, &of("edges_of_places"));
            let far = b.zip(Binary::Sub, at, both, &of("far"));
            let far = logarithms(b, far, &of("log"))?;
            let embed = format!("detr_decoder.box_rpb_embed_{axis}");
            let y = steps(b, far, &embed, &[2, self.width, h])?;
            let y = b.transpose(y, &[0, 3, 1, 2], &of("by_head"));
            let y = front(b, y, vec![0, 0, 1, 0], &of("with_first"));
            let (tall, wide) = if axis == "x" { (1, g) } else { (g, 1) };
            let dims = [batch.clone(), h.into(), rows.clone(), tall.into(), wide.into()];
            sides.push(b.reshape(y, &dims, &of("side")));
        }
        let sum = match sides.as_slice() {
            &[x, y] => b.add(y, x, &format!("{name}.distances_grid")),
            _ => return Err(crate::Error::internal("a grid has two axes")),
        };
        Ok(b.reshape(sum, &[batch, h.into(), rows, (g * g).into()], &format!("{name}.distances")))
    }
}

/// `sign(8 x) log2(|8 x| + 1) / 3`
fn logarithms(b: &mut Make<'_, '_>, x: Tensor, name: &str) -> Result<Tensor> {
    let of = |part: &str| format!("{name}_{part}");
    let x = b.scaled(x, 8.0, &of("scaled"))?;
    let sign = b.map(Unary::Sign, x, &of("sign"));
    let size = b.map(Unary::Abs, x, &of("size"));
    let one = b.number(DType::F32, 1.0, &of("one"))?;
    let size = b.add(size, one, &of("more"));
    let size = b.map(Unary::Log, size, &of("natural"));
    let size = b.scaled(size, 1.0 / (3.0 * core::f64::consts::LN_2), &of("of_eight"))?;
    Ok(b.zip(Binary::Mul, sign, size, name))
}

/// What a sigmoid was of, for numbers from 0 to 1; near both ends that of a number less near.
fn unsigmoid(b: &mut Make<'_, '_>, x: Tensor, name: &str) -> Result<Tensor> {
    let of = |part: &str| format!("{name}.before_{part}");
    let one = b.number(DType::F32, 1.0, &of("one"))?;
    let rest = b.zip(Binary::Sub, one, x, &of("rest"));
    let mut bound = |x, label: &str| b.m.op(Clamp { min: LEAST, max: 1.0 }, &[x], &of(label));
    let (x, rest) = (bound(x, "bound"), bound(rest, "rest_bound"));
    let ratio = b.zip(Binary::Div, x, rest, &of("ratio"));
    Ok(b.map(Unary::Log, ratio, &of("logits")))
}

/// Boxes `[.., 4]` of a middle and a size as their left, top, right and bottom. They have three axes.
pub(super) fn corners(b: &mut Make<'_, '_>, boxes: Tensor, name: &str) -> Result<Tensor> {
    let of = |part: &str| format!("{name}.corners_{part}");
    let middle = b.slice(boxes, 2, 0, 2u64.into(), &of("middle"));
    let size = b.slice(boxes, 2, 2, 2u64.into(), &of("size"));
    let half = b.scaled(size, 0.5, &of("half"))?;
    let low = b.zip(Binary::Sub, middle, half, &of("low"));
    let high = b.add(middle, half, &of("high"));
    Ok(b.concat(&[low, high], 2, &format!("{name}.corners")))
}

/// Zeros before `x`, as many along each axis as `low` says.
fn front(b: &mut Make<'_, '_>, x: Tensor, low: Vec<u64>, name: &str) -> Tensor {
    let high = vec![0; low.len()];
    b.m.op(Pad { low, high, mode: PadMode::Constant(0.0) }, &[x], name)
}
