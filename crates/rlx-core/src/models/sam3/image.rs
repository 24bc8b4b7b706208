//! The image encoder: a vision transformer (arXiv:2010.11929) with windows (ViTDet, arXiv:2203.16527) and rotary
//! positions of rows and columns (arXiv:2403.13298), and features of its last layer in three sizes.

use super::super::sam::{FINE, IMAGE_EMBED, MIDDLE, Make};
use super::super::tensors::Tensors;
use super::{FIRST, LAST, Sam3Config, mlp};
use crate::error::Result;
use crate::ir::hir::{Module, Tensor};
use crate::ops::{AxialRope2d, Sdpa, Unary, Window};
use crate::types::{BATCH, DType, Dim, Shape, Type};
use alloc::format;
use alloc::vec;

const BACKBONE: &str = "vision_encoder.backbone";

impl Sam3Config {
    /// `pixel_values [BATCH, 3, S, S]` to features of three sizes.
    pub(super) fn image_embed(&self, tensors: &Tensors<'_>) -> Result<Module> {
        let (mut b, v) = (self.make(IMAGE_EMBED, tensors), &self.image);
        let of = |part: &str| format!("{BACKBONE}.{part}");
        let dims = vec![Dim::symbol(BATCH), 3u64.into(), v.size.into(), v.size.into()];
        let pixels = b.m.input("pixel_values", Type::tensor(DType::F32, Shape(dims)));
        let patches = Window::new(2).stride(&[v.patch; 2]);
        let name = of("embeddings.patch_embeddings.projection");
        let x = b.conv(pixels, &name, [v.dim, 3, v.patch], patches, false)?;
        let x = b.transpose(x, &LAST, &of("embeddings.patches"));
        let positions = self.positions(&mut b)?;
        let x = b.add(x, positions, &of("embeddings"));
        b.m.tap(format!("sub.{BACKBONE}.embeddings.out"), x);
        let mut x = b.norm(x, &of("layer_norm"), v.dim, v.eps)?;
        for (i, &global) in v.global.iter().enumerate() {
            let name = of(&format!("layers.{i}"));
            x = self.layer(&mut b, x, &name, global)?;
            b.m.tap(format!("sub.{name}.out"), x);
        }
        self.neck(&mut b, x)?;
        Ok(b.m)
    }

    /// Positions `[G, G, D]`: the table of the images that it was first trained with, repeated.
    fn positions(&self, b: &mut Make<'_, '_>) -> Result<Tensor> {
        let (d, g, t) = (self.image.dim, self.image.grid, self.image.table);
        let of = |part: &str| format!("{BACKBONE}.embeddings.{part}");
        let own = b.tensor(&of("position_embeddings"), &[1, t * t, d])?;
        let n = g.div_ceil(t);
        let own = b.reshape(own, &[1, t, 1, t, d].map(Dim::from), &of("table"));
        let all = b.expand(own, &[n, t, n, t, d].map(Dim::from), &of("tables"));
        let mut all = b.reshape(all, &[n * t, n * t, d].map(Dim::from), &of("repeated"));
        if n * t != g {
            for axis in [0, 1] {
                all = b.slice(all, axis, 0, g.into(), &of(&format!("crop{axis}")));
            }
        }
        Ok(all)
    }

    /// A layer over `[B, G, G, D]`.
    fn layer(&self, b: &mut Make<'_, '_>, x: Tensor, name: &str, global: bool) -> Result<Tensor> {
        let v = &self.image;
        let of = |part: &str| format!("{name}.{part}");
        let y = b.norm(x, &of("layer_norm1"), v.dim, v.eps)?;
        let y = match global {
            true => self.seen(b, y, &of("attention"), Dim::symbol(BATCH), v.grid)?,
            false => self.windows(b, y, &of("attention"))?,
        };
        let x = b.add(x, y, &of("attention_residual"));
        let y = b.norm(x, &of("layer_norm2"), v.dim, v.eps)?;
        let y = mlp(b, y, &of("mlp"), [v.dim, v.ffn_dim], v.act)?;
        Ok(b.add(x, y, &of("mlp_residual")))
    }

    /// Attention within windows. The grid is padded at its bottom and right with zeros, which are seen as the biases
    /// of the projections.
    fn windows(&self, b: &mut Make<'_, '_>, x: Tensor, name: &str) -> Result<Tensor> {
        let (grid, w) = (self.image.grid, self.image.window);
        let d = Dim::from(self.image.dim);
        let (x, items) = b.windows(x, name, d.clone(), [grid, w])?;
        let y = self.seen(b, x, name, items, w)?;
        Ok(b.grid_of_windows(y, name, d, [grid, w, grid.div_ceil(w)]))
    }

    /// Attention among all `n x n` places of each item of `[N, n, n, D]`. Positions are as far apart in a window as
    /// places are; over the whole grid they are as far from one end to the other as in a window.
    fn seen(
        &self,
        b: &mut Make<'_, '_>,
        x: Tensor,
        name: &str,
        items: Dim,
        n: u64,
    ) -> Result<Tensor> {
        let v = &self.image;
        let (d, head_dim) = (v.dim, v.dim / v.heads);
        let of = |part: &str| format!("{name}.{part}");
        let rows = b.reshape(x, &[items.clone(), (n * n).into(), d.into()], &of("rows"));
        let turn = AxialRope2d {
            end_x: n,
            end_y: n,
            head_dim,
            heads: v.heads,
            theta: v.theta,
            repeat: 1,
            scale: (v.window as f64 / n as f64) as f32,
        };
        let q = b.linear(rows, &of("q_proj"), [d, d], None)?;
        let q = b.m.op(turn.clone(), &[q], &of("q_turned"));
        let k = b.linear(rows, &of("k_proj"), [d, d], None)?;
        let k = b.m.op(turn, &[k], &of("k_turned"));
        let value = b.linear(rows, &of("v_proj"), [d, d], None)?;
        let y = b.m.op(Sdpa::new(v.heads as usize, head_dim as usize), &[q, k, value], name);
        let y = b.linear(y, &of("o_proj"), [d, d], None)?;
        let y = b.reshape(y, &[items, n.into(), n.into(), d.into()], &of("places_of_items"));
        b.m.tap(format!("sub.{name}.out"), y);
        Ok(y)
    }

    /// Features four times and twice as fine as the grid, and as fine.
    fn neck(&self, b: &mut Make<'_, '_>, x: Tensor) -> Result<()> {
        let (c, d) = (self.width, self.image.dim);
        // Features half as fine, which nothing asks for.
        let unread = format!("{}vision_encoder.neck.fpn_layers.3.", self.prefix);
        b.tensors.inert(|n| n.starts_with(&unread));
        let x = b.transpose(x, &FIRST, "vision_encoder.neck.channels");
        for (level, output) in [FINE, MIDDLE, "image_embeddings"].into_iter().enumerate() {
            let of = |part: &str| format!("vision_encoder.neck.fpn_layers.{level}.{part}");
            let (mut y, mut width) = (x, d);
            if level < 2 {
                y = b.twice(y, &of("scale_layers.0"), [d / 2, d])?;
                width = d / 2;
            }
            if level == 0 {
                y = b.map(Unary::GeluErf, y, &of("scale_layers.1"));
                y = b.twice(y, &of("scale_layers.2"), [d / 4, d / 2])?;
                width = d / 4;
            }
            let y = b.conv(y, &of("proj1"), [c, width, 1], Window::new(2), true)?;
            let around = Window::new(2).pad(&[1; 2], &[1; 2]);
            let y = b.conv(y, &of("proj2"), [c, c, 3], around, true)?;
            b.m.tap(format!("out.fpn_hidden_states.{level}"), y);
            b.m.output(output, y);
        }
        Ok(())
    }
}
