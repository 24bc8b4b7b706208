//! The image encoder: a vision transformer (arXiv:2010.11929) with windows and relative positions (ViTDet,
//! arXiv:2203.16527), and a neck of two convolutions.

use super::SamConfig;
use super::make::{EPS, Make, OUT_PROJ};
use crate::error::Result;
use crate::ir::hir::{Module, Tensor};
use crate::models::tensors::Tensors;
use crate::ops::{BatchMatMul, Constant, Gather, HeadLayout, Mask, Sdpa, Window};
use crate::types::{BATCH, DType, Dim, Shape, Type};
use alloc::format;
use alloc::vec::Vec;

impl SamConfig {
    /// `pixel_values [BATCH, 3, S, S]` to `image_embeddings [BATCH, C, G, G]`.
    pub(super) fn image_embed(&self, tensors: &Tensors<'_>) -> Result<Module> {
        let mut b =
            Make { m: Module::graph(super::IMAGE_EMBED), tensors, out_proj: OUT_PROJ, prefix: "" };
        let (grid, batch) = (Dim::from(self.grid()), Dim::symbol(BATCH));
        let (d, c) = (self.dim, self.masks.width);
        let dims = [batch.clone(), 3u64.into(), self.masks.image.into(), self.masks.image.into()];
        let pixels = b.m.input("pixel_values", Type::tensor(DType::F32, Shape(dims.to_vec())));
        let patches = Window::new(2).stride(&[self.patch, self.patch]);
        let name = "vision_encoder.patch_embed";
        let x = b.conv(pixels, &format!("{name}.projection"), [d, 3, self.patch], patches, true)?;
        let mut x = b.transpose(x, &[0, 2, 3, 1], name);
        b.m.tap(format!("sub.{name}.out"), x);
        let positions = b.tensor("vision_encoder.pos_embed", &[1, self.grid(), self.grid(), d])?;
        x = b.add(x, positions, "vision_encoder.embeddings");
        for (i, &global) in self.global.iter().enumerate() {
            x = self.layer(&mut b, x, &format!("vision_encoder.layers.{i}"), global)?;
            b.m.tap(format!("sub.vision_encoder.layers.{i}.out"), x);
        }
        let name = "vision_encoder.neck";
        let x = b.transpose(x, &[0, 3, 1, 2], &format!("{name}.channels"));
        let x = b.conv(x, &format!("{name}.conv1"), [c, d, 1], Window::new(2), false)?;
        let x = b.norm_2d(x, &format!("{name}.layer_norm1"), c, EPS)?;
        let around = Window::new(2).pad(&[1, 1], &[1, 1]);
        let x = b.conv(x, &format!("{name}.conv2"), [c, c, 3], around, false)?;
        let x = b.norm_2d(x, &format!("{name}.layer_norm2"), c, EPS)?;
        let x = b.reshape(x, &[batch, c.into(), grid.clone(), grid], &format!("{name}.grid"));
        b.m.tap(format!("sub.{name}.out"), x);
        b.m.output("image_embeddings", x);
        Ok(b.m)
    }

    /// A layer over `[B, G, G, D]`.
    fn layer(&self, b: &mut Make<'_, '_>, x: Tensor, name: &str, global: bool) -> Result<Tensor> {
        let d = self.dim;
        let y = b.norm(x, &format!("{name}.layer_norm1"), d, self.eps)?;
        let (grid, attn) = (self.grid(), format!("{name}.attn"));
        let y = match global {
            true => self.seen(b, y, &attn, Dim::symbol(BATCH), grid)?,
            false => self.windows(b, y, &attn, grid)?,
        };
        let x = b.add(x, y, &format!("{name}.attn_residual"));
        let y = b.norm(x, &format!("{name}.layer_norm2"), d, self.eps)?;
        let y = b.linear(y, &format!("{name}.mlp.lin1"), [self.ffn_dim, d], Some(self.act))?;
        let y = b.linear(y, &format!("{name}.mlp.lin2"), [d, self.ffn_dim], None)?;
        Ok(b.add(x, y, &format!("{name}.mlp_residual")))
    }

    /// Attention within windows. The grid is padded at its bottom and right with zeros, which are seen as the biases
    /// of the projections.
    fn windows(&self, b: &mut Make<'_, '_>, x: Tensor, name: &str, grid: u64) -> Result<Tensor> {
        let (d, w) = (Dim::from(self.dim), self.window);
        let (x, items) = b.windows(x, name, d.clone(), [grid, w])?;
        let y = self.seen(b, x, name, items, w)?;
        Ok(b.grid_of_windows(y, name, d, [grid, w, grid.div_ceil(w)]))
    }

    /// Attention among all `n x n` places of each item of `[N, n, n, D]`.
    ///
    /// The score of a query for a key has two more terms: products of the query with a vector of their distance in
    /// rows, and with one of their distance in columns. A query has its products for every row and every column;
    /// attention adds them where a key stands. So scores of all pairs never stand in memory, which for the published
    /// grid of 64 x 64 were 805 MB.
    fn seen(
        &self,
        b: &mut Make<'_, '_>,
        x: Tensor,
        name: &str,
        items: Dim,
        n: u64,
    ) -> Result<Tensor> {
        let (d, h) = (self.dim, self.heads);
        let e = d / h;
        let at = |part: &str| format!("{name}.{part}");
        let rows = b.reshape(x, &[items.clone(), (n * n).into(), d.into()], &at("rows"));
        let weights = b.tensors.linear_biased(&at("qkv"), [3 * d, d], Some(self.qkv_bias))?;
        let qkv = b.m.linear(rows, weights, &at("qkv"));
        let heads = [items.clone(), (n * n).into(), h.into(), e.into()];
        let part = |b: &mut Make<'_, '_>, i: u64, label: &str| {
            let x = b.slice(qkv, 2, i * d, d.into(), &at(label));
            let x = b.reshape(x, &heads, &at(&format!("{label}_heads")));
            b.transpose(x, &[0, 2, 1, 3], &at(&format!("{label}_by_head")))
        };
        let (q, k, v) = (part(b, 0, "q"), part(b, 1, "k"), part(b, 2, "v"));
        // [N, H, row, column, E]
        let places = [items.clone(), h.into(), n.into(), n.into(), e.into()];
        let of_rows = b.reshape(q, &places, &at("q_places"));
        let by_row = self.distances(b, of_rows, &at("rel_pos_h"), n)?;
        let of_columns = b.transpose(of_rows, &[0, 1, 3, 2, 4], &at("q_columns"));
        let by_column = self.distances(b, of_columns, &at("rel_pos_w"), n)?;
        let by_column = b.transpose(by_column, &[0, 1, 3, 2, 4], &at("rel_pos_w_places"));
        let flat = [items.clone(), h.into(), (n * n).into(), n.into()];
        let by_row = b.reshape(by_row, &flat, &at("rel_pos_h_rows"));
        let by_column = b.reshape(by_column, &flat, &at("rel_pos_w_rows"));
        let (mask, layout) = (Mask::Grid, HeadLayout::Bhsd);
        let op = Sdpa { mask, layout, ..Sdpa::new(h as usize, e as usize) };
        let y = b.m.op(op, &[q, k, v, by_row, by_column], name);
        let y = b.transpose(y, &[0, 2, 1, 3], &at("by_place"));
        let y = b.reshape(y, &[items, n.into(), n.into(), d.into()], &at("joined"));
        let y = b.linear(y, &at("proj"), [d, d], None)?;
        b.m.tap(format!("sub.{name}.out"), y);
        Ok(y)
    }

    /// Products of queries `[.., n, m, E]` of n rows with the vectors of their distances to n rows: `[.., n, m, n]`.
    fn distances(&self, b: &mut Make<'_, '_>, q: Tensor, name: &str, n: u64) -> Result<Tensor> {
        let e = self.dim / self.heads;
        let table = b.tensor(name, &[2 * n - 1, e])?;
        let far = |row: u64| (0..n).map(move |key| (row + n - 1 - key) as u32);
        let at: Vec<u8> = (0..n).flat_map(far).flat_map(u32::to_le_bytes).collect();
        let at = Constant::new(Type::tensor(DType::U32, Shape::of(&[n * n])), at)?;
        let at = b.m.op(at, &[], &format!("{name}.distance"));
        let vectors = b.m.op(Gather::default(), &[table, at], &format!("{name}.vectors"));
        let vectors =
            b.reshape(vectors, &[n.into(), n.into(), e.into()], &format!("{name}.by_row"));
        Ok(b.m.op(BatchMatMul { transpose_b: true }, &[q, vectors], name))
    }
}
