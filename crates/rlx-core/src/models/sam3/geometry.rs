//! Boxes of a prompt: a row for each, and one more for all, which see each other and the image. A box's row is the sum
//! of its numbers, of the image's features in it (RoIAlign, arXiv:1703.06870), of sines and cosines of its middle, and
//! of what its label means.

use super::super::sam::Make;
use super::detr::{Image, corners};
use super::{BOXES, EPS, NO_BOX, Prompt, Sam3Config, mlp, sines};
use crate::error::Result;
use crate::ir::hir::Tensor;
use crate::ops::{
    BatchMatMul, Binary, Cast, Clamp, Compare, Comparison, Constant, Gather, Mask, Reduce,
    Reduction, Unary, Window,
};
use crate::types::{BATCH, DType, Dim, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Names here begin so.
fn of(part: &str) -> alloc::string::String {
    format!("geometry_encoder.{part}")
}

impl Sam3Config {
    /// Rows of the boxes, `[BATCH, BOXES + 1, C]`.
    pub(super) fn boxes(&self, b: &mut Make<'_, '_>, image: Image) -> Result<Prompt> {
        let (c, layers) = (self.width, &self.geometry);
        let (batch, count, one) = (Dim::symbol(BATCH), Dim::symbol(BOXES), Dim::from(1u64));
        let dims = vec![batch.clone(), count.clone(), 4u64.into()];
        let boxes = b.m.input("input_boxes", Type::tensor(DType::F32, Shape(dims)));
        let dims = vec![batch.clone(), count.clone()];
        let labels = b.m.input("input_boxes_labels", Type::tensor(DType::I32, Shape(dims)));
        let none = b.number(DType::I32, NO_BOX.into(), &of("no_box"))?;
        let real = b.m.op(Compare { f: Comparison::Ne }, &[labels, none], &of("real"));
        let real = b.m.op(Cast { to: DType::F32 }, &[real], &of("real_boxes"));
        let always = b.number(DType::F32, 1.0, &of("always"))?;
        let always = b.expand(always, &[batch.clone(), one.clone()], &of("always_seen"));
        let seen = b.concat(&[real, always], 1, &of("seen"));
        let x = self.box_rows(b, image, boxes, labels)?;
        let all = b.tensor(&of("cls_embed.weight"), &[1, c])?;
        let all = b.expand(all, &[batch, one, c.into()], &of("of_all"));
        let x = b.concat(&[x, all], 1, &of("rows"));
        let x = b.linear(x, &of("final_proj"), [c, c], None)?;
        let mut x = b.norm(x, &of("prompt_layer_norm"), c, EPS)?;
        let (widths, keys) =
            ([c, c, layers.heads], b.add(image.rows, image.positions, &of("keys")));
        for i in 0..layers.layers {
            let name = of(&format!("layers.{i}"));
            let at = |part: &str| format!("{name}.{part}");
            let y = b.norm(x, &at("layer_norm1"), c, EPS)?;
            let y = b.attention_to([y; 3], &at("self_attn"), widths, (Mask::Custom, Some(seen)))?;
            x = b.add(x, y, &at("self_residual"));
            let y = b.norm(x, &at("layer_norm2"), c, EPS)?;
            let y = b.attention([y, keys, image.rows], &at("cross_attn"), widths)?;
            x = b.add(x, y, &at("cross_residual"));
            let y = b.norm(x, &at("layer_norm3"), c, EPS)?;
            let y = mlp(b, y, &at("mlp"), [c, layers.ffn_dim], layers.act)?;
            x = b.add(x, y, &at("mlp_residual"));
            b.m.tap(format!("sub.{name}.out"), x);
        }
        let rows = b.norm(x, &of("output_layer_norm"), c, EPS)?;
        b.m.tap("sub.geometry_encoder.out", rows);
        Ok(Prompt { rows, seen, count: count.add(&Dim::from(1u64))? })
    }

    /// What is known of each box, `[BATCH, BOXES, C]`.
    fn box_rows(
        &self,
        b: &mut Make<'_, '_>,
        image: Image,
        boxes: Tensor,
        labels: Tensor,
    ) -> Result<Tensor> {
        let c = self.width;
        let sizes = [Dim::symbol(BATCH), Dim::symbol(BOXES)];
        let direct = b.linear(boxes, &of("boxes_direct_project"), [c, 4], None)?;
        let pooled = self.pooled(b, image, boxes)?;
        let mut part = |at: u64, label: &str| b.slice(boxes, 2, at, 1u64.into(), &of(label));
        let [x, y, width, height] =
            [part(0, "box_x"), part(1, "box_y"), part(2, "box_width"), part(3, "box_height")];
        // The row comes before the column, the height before the width.
        let middle = b.concat(&[y, x], 2, &of("middle"));
        let middle = sines(b, middle, &of("middle_sines"), sizes, [2, c / 2])?;
        let middle = b.concat(&[middle, height, width], 2, &of("places"));
        let place = b.linear(middle, &of("boxes_pos_enc_project"), [c, c + 2], None)?;
        let kinds = b.tensor(&of("label_embed.weight"), &[2, c])?;
        // Whatever label padding has, nothing sees its row: it counts as a box of what is no such thing.
        let such = b.number(DType::I32, 1.0, &of("such"))?;
        let is = b.m.op(Compare { f: Comparison::Eq }, &[labels, such], &of("is_such"));
        let row = b.m.op(Cast { to: DType::I32 }, &[is], &of("kind_rows"));
        let kind = b.m.op(Gather::default(), &[kinds, row], &of("kinds"));
        let x = b.add(direct, pooled, &of("with_features"));
        let x = b.add(x, place, &of("with_place"));
        Ok(b.add(x, kind, &of("with_kind")))
    }

    /// The image's features in each box, `[BATCH, BOXES, C]`: R x R means, and a product with all of them.
    ///
    /// A mean is of places between the image's, each of which is a mean of the four around it. All weights are products
    /// of one for the row and one for the column, so that two products of matrices make the means.
    fn pooled(&self, b: &mut Make<'_, '_>, image: Image, boxes: Tensor) -> Result<Tensor> {
        let (c, g, r) = (self.width, self.image.grid, self.roi);
        let (batch, count) = (Dim::symbol(BATCH), Dim::symbol(BOXES));
        let items = batch.mul(&count)?;
        let rows = b.norm(image.rows, &of("vision_layer_norm"), c, EPS)?;
        let rows = b.reshape(rows, &[batch.clone(), g.into(), (g * c).into()], &of("by_row"));
        let edges = corners(b, boxes, "geometry_encoder")?;
        let edges = b.scaled(edges, g as f64, &of("edges"))?;
        let down = self.weights(b, edges, 1, "rows")?;
        let dims = [batch.clone(), count.mul(&Dim::from(r))?, g.into()];
        let down = b.reshape(down, &dims, &of("rows_of_boxes"));
        let x = b.m.op(BatchMatMul::default(), &[down, rows], &of("pooled_rows"));
        let x = b.reshape(x, &[items.clone(), r.into(), g.into(), c.into()], &of("pooled_grid"));
        let x = b.transpose(x, &[0, 2, 1, 3], &of("pooled_by_column"));
        let x = b.reshape(x, &[items.clone(), g.into(), (r * c).into()], &of("pooled_columns"));
        let across = self.weights(b, edges, 0, "columns")?;
        let across = b.reshape(across, &[items.clone(), r.into(), g.into()], &of("columns"));
        let x = b.m.op(BatchMatMul::default(), &[across, x], &of("pooled"));
        let x = b.reshape(x, &[items.clone(), r.into(), r.into(), c.into()], &of("means"));
        let x = b.transpose(x, &[0, 3, 2, 1], &of("means_by_channel"));
        let x = b.conv(x, &of("boxes_pool_project"), [c, c, r], Window::new(2), true)?;
        Ok(b.reshape(x, &[batch, count, c.into()], &of("features")))
    }

    /// Weights `[BATCH, BOXES, R, G]` of the image's rows (axis 1) or columns (axis 0) in the R parts of each box.
    ///
    /// A part is as many places as whole pixels begin in it, evenly spaced; a place's weights are 1 less its distance
    /// from the two pixels around it. A box is at least a pixel wide; places more than a pixel outside count as zeros.
    fn weights(
        &self,
        b: &mut Make<'_, '_>,
        edges: Tensor,
        axis: u64,
        name: &str,
    ) -> Result<Tensor> {
        let (g, r) = (self.image.grid, self.roi);
        let of = |part: &str| format!("geometry_encoder.{name}.{part}");
        // A box within the image is no larger than it, but for rounding.
        let most = g / r + 2;
        let sizes = [Dim::symbol(BATCH), Dim::symbol(BOXES), 1u64.into(), 1u64.into()];
        let mut edge = |i: u64, label: &str| {
            let x = b.slice(edges, 2, i, 1u64.into(), &of(label));
            b.reshape(x, &sizes, &of(&format!("{label}_of_parts")))
        };
        let (low, high) = (edge(axis, "low"), edge(axis + 2, "high"));
        let size = b.zip(Binary::Sub, high, low, &of("whole"));
        let size = b.m.op(Clamp { min: 1.0, max: f32::MAX }, &[size], &of("size"));
        let parts = b.number(DType::F32, r as f64, &of("parts"))?;
        let part = b.zip(Binary::Div, size, parts, &of("part"));
        let places = b.map(Unary::Ceil, part, &of("places_wanted"));
        let places = b.m.op(Clamp { min: 1.0, max: most as f32 }, &[places], &of("places"));
        let counted: Vec<f32> = (0..r).map(|i| i as f32).collect();
        let starts = b.m.op(Constant::f32s(&[r, 1], &counted)?, &[], &of("part_numbers"));
        let starts = b.zip(Binary::Mul, part, starts, &of("part_offsets"));
        let starts = b.add(low, starts, &of("part_starts"));
        let middles: Vec<f32> = (0..most).map(|i| i as f32 + 0.5).collect();
        let middles = b.m.op(Constant::f32s(&[most], &middles)?, &[], &of("place_numbers"));
        let steps = b.zip(Binary::Mul, part, middles, &of("place_spread"));
        let steps = b.zip(Binary::Div, steps, places, &of("place_offsets"));
        // [BATCH, BOXES, R, places]
        let at = b.add(starts, steps, &of("at"));
        let bound = |b: &mut Make<'_, '_>, x: f64, label: &str| b.number(DType::F32, x, &of(label));
        let (least, last) = (bound(b, -1.0, "least")?, bound(b, g as f64, "last")?);
        let mut share = None;
        for (x, f, y, label) in [
            (at, Comparison::Ge, least, "not_before"),
            (at, Comparison::Le, last, "not_behind"),
            (middles, Comparison::Lt, places, "counted"),
        ] {
            let is = b.m.op(Compare { f }, &[x, y], &of(label));
            let is = b.m.op(Cast { to: DType::F32 }, &[is], &of(&format!("{label}_one")));
            share = Some(match share {
                None => is,
                Some(all) => b.zip(Binary::Mul, all, is, &of(&format!("{label}_all"))),
            });
        }
        let Some(share) = share else { return Err(crate::Error::internal("places have bounds")) };
        let share = b.zip(Binary::Div, share, places, &of("share"));
        let at = b.m.op(Clamp { min: 0.0, max: (g - 1) as f32 }, &[at], &of("at_bounded"));
        let deep = [Dim::symbol(BATCH), Dim::symbol(BOXES), r.into(), most.into(), Dim::from(1u64)];
        let (at, share) =
            (b.reshape(at, &deep, &of("at_deep")), b.reshape(share, &deep, &of("share_deep")));
        let pixels: Vec<f32> = (0..g).map(|i| i as f32).collect();
        let pixels = b.m.op(Constant::f32s(&[g], &pixels)?, &[], &of("pixels"));
        let far = b.zip(Binary::Sub, at, pixels, &of("far"));
        let far = b.map(Unary::Abs, far, &of("distance"));
        let one = bound(b, 1.0, "one")?;
        let near = b.zip(Binary::Sub, one, far, &of("near"));
        let near = b.map(Unary::Relu, near, &of("weight"));
        let near = b.zip(Binary::Mul, near, share, &of("weight_shared"));
        let sum = Reduce { f: Reduction::Sum, axes: vec![3], keep: false };
        Ok(b.m.op(sum, &[near], &of("weights")))
    }
}
