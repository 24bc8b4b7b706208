//! Scores and masks of what was found: products of a thing's row with the prompt and with the image's places, once the
//! places of three sizes are joined (MaskFormer, arXiv:2107.06278).

use super::super::sam::Make;
use super::detr::Image;
use super::parse::GROUPS;
use super::{EPS, Prompt, Sam3Config, steps};
use crate::error::Result;
use crate::ir::hir::Tensor;
use crate::ops::{
    BatchMatMul, Binary, Clamp, GroupNorm, Interpolate, Interpolation, Reduce, Reduction, Unary,
    Window,
};
use crate::types::{BATCH, Dim};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Scores are no further from 0.
const SCORE_MOST: f32 = 12.0;

impl Sam3Config {
    /// How well each thing is what the prompt means, `[BATCH, Q]`.
    pub(super) fn scores(
        &self,
        b: &mut Make<'_, '_>,
        things: Tensor,
        prompt: &Prompt,
    ) -> Result<Tensor> {
        let c = self.width;
        let of = |part: &str| format!("dot_product_scoring.{part}");
        let y = steps(b, prompt.rows, &of("text_mlp"), &[c, self.decoder.ffn_dim, c])?;
        let y = b.add(y, prompt.rows, &of("text_residual"));
        let y = b.norm(y, &of("text_mlp_out_norm"), c, EPS)?;
        // The mean of the rows that are seen: [BATCH, 1, C].
        let sum = |b: &mut Make<'_, '_>, x, name: &str| {
            b.m.op(Reduce { f: Reduction::Sum, axes: vec![1], keep: true }, &[x], &of(name))
        };
        let count = sum(b, prompt.seen, "count");
        let count = b.m.op(Clamp { min: 1.0, max: f32::MAX }, &[count], &of("count_or_one"));
        let share = b.zip(Binary::Div, prompt.seen, count, &of("share"));
        let dims = [Dim::symbol(BATCH), Dim::from(1u64), prompt.count.clone()];
        let share = b.reshape(share, &dims, &of("shares"));
        let mean = b.m.op(BatchMatMul::default(), &[share, y], &of("mean"));
        let mean = b.linear(mean, &of("text_proj"), [c, c], None)?;
        let things = b.linear(things, &of("query_proj"), [c, c], None)?;
        let y = b.m.op(BatchMatMul { transpose_b: true }, &[things, mean], &of("products"));
        let y = b.scaled(y, 1.0 / crate::math::sqrt(c as f64), &of("scaled"))?;
        let y = b.m.op(Clamp { min: -SCORE_MOST, max: SCORE_MOST }, &[y], &of("bounded"));
        Ok(b.reshape(y, &[Dim::symbol(BATCH), self.queries.into()], &of("scores")))
    }

    /// Masks of the things, `[BATCH, Q, 4 G, 4 G]`, and of all together, `[BATCH, 1, 4 G, 4 G]`.
    pub(super) fn masks(
        &self,
        b: &mut Make<'_, '_>,
        image: Image,
        things: Tensor,
        prompt: &Prompt,
    ) -> Result<[Tensor; 2]> {
        let (c, g, q) = (self.width, self.image.grid, self.queries);
        let batch = Dim::symbol(BATCH);
        let of = |part: &str| format!("mask_decoder.{part}");
        let y = b.norm(image.rows, &of("prompt_cross_attn_norm"), c, EPS)?;
        let rows = [y, prompt.rows, prompt.rows];
        let widths = [c, c, self.mask_heads];
        let y = b.attention_to(rows, &of("prompt_cross_attn"), widths, prompt.mask())?;
        let x = b.add(image.rows, y, &of("prompt_residual"));
        let x = b.transpose(x, &[0, 2, 1], &of("channels"));
        let mut x = b.reshape(x, &[batch.clone(), c.into(), g.into(), g.into()], &of("grid"));
        // Weights of stages that the image has no finer features for.
        let unread = |i: u64| {
            ["conv_layers", "norms"]
                .map(|part| format!("{}{}", self.prefix, of(&format!("pixel_decoder.{part}.{i}."))))
        };
        let unread: Vec<String> = (2..self.mask_stages).flat_map(unread).collect();
        b.tensors.inert(|n| unread.iter().any(|name| n.starts_with(name)));
        let finer = [(image.finer[1], 2 * g), (image.finer[0], 4 * g)];
        for (i, (finer, edge)) in finer.into_iter().enumerate() {
            let at = |part: &str| of(&format!("pixel_decoder.{part}.{i}"));
            let size = vec![edge; 2];
            let mode = Interpolation::Nearest;
            let twice = Interpolate { size, mode, align_corners: false, antialias: false };
            x = b.m.op(twice, &[x], &at("finer"));
            x = b.add(x, finer, &at("sum"));
            let around = Window::new(2).pad(&[1; 2], &[1; 2]);
            x = b.conv(x, &at("conv_layers"), [c, c, 3], around, true)?;
            let norm = at("norms");
            let scale = b.tensor(&format!("{norm}.weight"), &[c])?;
            let bias = b.tensor(&format!("{norm}.bias"), &[c])?;
            x = b.m.op(GroupNorm { groups: GROUPS, eps: EPS }, &[x, scale, bias], &norm);
            x = b.map(Unary::Relu, x, &at("act"));
        }
        let all = b.conv(x, &of("semantic_projection"), [1, c, 1], Window::new(2), true)?;
        let x = b.conv(x, &of("instance_projection"), [c, c, 1], Window::new(2), true)?;
        let x = b.reshape(x, &[batch.clone(), c.into(), (16 * g * g).into()], &of("fine_places"));
        let mut y = things;
        for i in 0..3 {
            let act = (i < 2).then_some(Unary::Relu);
            y = b.linear(y, &of(&format!("mask_embedder.layers.{i}")), [c, c], act)?;
        }
        let y = b.m.op(BatchMatMul::default(), &[y, x], &of("products"));
        let edge = Dim::from(4 * g);
        Ok([b.reshape(y, &[batch, q.into(), edge.clone(), edge], &of("masks")), all])
    }
}
