//! The image encoder: Hiera (arXiv:2306.00989) with positions of windows (arXiv:2311.05613), and a pyramid of its
//! features (arXiv:1612.03144).

use super::super::sam::{FINE, IMAGE_EMBED, MIDDLE, Make};
use super::super::tensors::Tensors;
use super::{HieraBlock, STAGES, Sam2Config};
use crate::error::Result;
use crate::ir::hir::{Module, Tensor};
use crate::ops::{Interpolate, Interpolation, Pool, PoolKind, Sdpa, Window};
use crate::types::{BATCH, DType, Dim, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// From channels first to last, and from last to first.
const LAST: [usize; 4] = [0, 2, 3, 1];
const FIRST: [usize; 4] = [0, 3, 1, 2];

const BACKBONE: &str = "vision_encoder.backbone";

impl Sam2Config {
    /// `pixel_values [BATCH, 3, S, S]` to features of three sizes.
    pub(super) fn image_embed(&self, tensors: &Tensors<'_>) -> Result<Module> {
        let mut b = Make { m: Module::graph(IMAGE_EMBED), tensors, out_proj: "o_proj", prefix: "" };
        let (size, batch) = (self.masks.image, Dim::symbol(BATCH));
        let dims = vec![batch, 3u64.into(), size.into(), size.into()];
        let pixels = b.m.input("pixel_values", Type::tensor(DType::F32, Shape(dims)));
        let half = self.kernel / 2;
        let window = Window::new(2).stride(&[self.stride; 2]).pad(&[half; 2], &[half; 2]);
        let name = format!("{BACKBONE}.patch_embed");
        let kernel = [self.dims[0], 3, self.kernel];
        let x = b.conv(pixels, &format!("{name}.projection"), kernel, window, true)?;
        let mut x = b.transpose(x, &LAST, &name);
        b.m.tap(format!("sub.{name}.out"), x);
        let positions = self.positions(&mut b)?;
        x = b.add(x, positions, &format!("{BACKBONE}.embeddings"));
        let mut ends = Vec::new();
        for (i, block) in self.blocks.iter().enumerate() {
            x = self.block(&mut b, x, &format!("{BACKBONE}.blocks.{i}"), block)?;
            b.m.tap(format!("sub.{BACKBONE}.blocks.{i}.out"), x);
            if self.blocks.get(i + 1).is_none_or(|next| next.pools) {
                ends.push(x);
            }
        }
        self.neck(&mut b, &ends)?;
        Ok(b.m)
    }

    /// Positions `[1, G, G, D]` of the first grid: a coarse table made as fine as the grid, and a table of the places
    /// within a window, repeated.
    fn positions(&self, b: &mut Make<'_, '_>) -> Result<Tensor> {
        let (d, g, w) = (self.dims[0], self.grid(0), self.window);
        let of = |part: &str| format!("{BACKBONE}.{part}");
        let coarse = b.tensor(&of("pos_embed"), &[1, d, self.positions, self.positions])?;
        let cubic = Interpolate {
            size: vec![g, g],
            mode: Interpolation::Cubic,
            align_corners: false,
            antialias: false,
        };
        let coarse = b.m.op(cubic, &[coarse], &of("pos_embed_grid"));
        let own = b.tensor(&of("pos_embed_window"), &[1, d, w, w])?;
        let n = g / w;
        let split = [1, d, 1, w, 1, w].map(Dim::from);
        let own = b.reshape(own, &split, &of("pos_embed_window_split"));
        let all = [1, d, n, w, n, w].map(Dim::from);
        let own = b.expand(own, &all, &of("pos_embed_window_all"));
        let own = b.reshape(own, &[1, d, g, g].map(Dim::from), &of("pos_embed_window_grid"));
        let x = b.add(coarse, own, &of("positions"));
        Ok(b.transpose(x, &LAST, &of("positions_last")))
    }

    /// A block over `[B, G, G, D]` of its stage's grid, or of the one before if it pools.
    fn block(
        &self,
        b: &mut Make<'_, '_>,
        x: Tensor,
        name: &str,
        block: &HieraBlock,
    ) -> Result<Tensor> {
        let d = self.dims[block.stage];
        let before = block.stage - usize::from(block.pools);
        let (from, grid) = (self.dims[before], self.grid(before));
        let of = |part: &str| format!("{name}.{part}");
        let y = b.norm(x, &of("layer_norm1"), from, self.eps)?;
        let mut rest = x;
        if from != d {
            rest = b.linear(y, &of("proj"), [d, from], None)?;
            rest = pooled(b, rest, &of("proj_pooled"));
        }
        let y = match block.window {
            0 => self.seen(b, y, name, block, Dim::symbol(BATCH), grid)?,
            w => self.windows(b, y, name, block, [grid, w])?,
        };
        let x = b.add(rest, y, &of("attn_residual"));
        let y = b.norm(x, &of("layer_norm2"), d, self.eps)?;
        let y = b.linear(y, &of("mlp.proj_in"), [block.ffn_dim, d], Some(self.act))?;
        let y = b.linear(y, &of("mlp.proj_out"), [d, block.ffn_dim], None)?;
        Ok(b.add(x, y, &of("mlp_residual")))
    }

    /// Attention within windows. The grid is padded at its bottom and right with zeros, which are seen as the biases
    /// of the projections.
    fn windows(
        &self,
        b: &mut Make<'_, '_>,
        x: Tensor,
        name: &str,
        block: &HieraBlock,
        [grid, w]: [u64; 2],
    ) -> Result<Tensor> {
        let before = block.stage - usize::from(block.pools);
        let (from, d) = (Dim::from(self.dims[before]), Dim::from(self.dims[block.stage]));
        let across = grid.div_ceil(w);
        let (x, items) = b.windows(x, name, from, [grid, w])?;
        let y = self.seen(b, x, name, block, items, w)?;
        let (grid, w) = if block.pools { (grid / 2, w / 2) } else { (grid, w) };
        Ok(b.grid_of_windows(y, name, d, [grid, w, across]))
    }

    /// Attention among all `n x n` places of each item of `[N, n, n, D]`; where the block pools, of queries that are
    /// the largest of two by two places.
    fn seen(
        &self,
        b: &mut Make<'_, '_>,
        x: Tensor,
        name: &str,
        block: &HieraBlock,
        items: Dim,
        n: u64,
    ) -> Result<Tensor> {
        let before = block.stage - usize::from(block.pools);
        let (from, d) = (self.dims[before], self.dims[block.stage]);
        let at = |part: &str| format!("{name}.attn.{part}");
        let rows = b.reshape(x, &[items.clone(), (n * n).into(), from.into()], &at("rows"));
        let qkv = b.linear(rows, &at("qkv"), [3 * d, from], None)?;
        let mut part = |i: u64, label: &str| b.slice(qkv, 2, i * d, d.into(), &at(label));
        let (mut q, k, v) = (part(0, "q"), part(1, "k"), part(2, "v"));
        let mut out = n;
        if block.pools {
            out = n / 2;
            q = b.reshape(q, &[items.clone(), n.into(), n.into(), d.into()], &at("q_grid"));
            q = pooled(b, q, &at("q_pooled"));
            q = b.reshape(q, &[items.clone(), (out * out).into(), d.into()], &at("q_rows"));
        }
        let op = Sdpa::new(block.heads as usize, (d / block.heads) as usize);
        let y = b.m.op(op, &[q, k, v], &at("heads"));
        let y = b.linear(y, &at("proj"), [d, d], None)?;
        let y = b.reshape(y, &[items, out.into(), out.into(), d.into()], &at("grid"));
        b.m.tap(format!("sub.{name}.attn.out"), y);
        Ok(y)
    }

    /// Features of the stages, all of one width; those of a coarser stage are added where the configuration says so.
    fn neck(&self, b: &mut Make<'_, '_>, ends: &[Tensor]) -> Result<()> {
        let c = self.masks.width;
        let mut last = None;
        for (level, &x) in ends.iter().enumerate().rev() {
            let name = format!("vision_encoder.neck.convs.{}", STAGES - 1 - level);
            let x = b.transpose(x, &FIRST, &format!("{name}.channels"));
            let mut x = b.conv(x, &name, [c, self.dims[level], 1], Window::new(2), true)?;
            if let (Some(coarse), true) = (last, self.top_down[level]) {
                let twice = Interpolate {
                    size: vec![self.grid(level); 2],
                    mode: Interpolation::Nearest,
                    align_corners: false,
                    antialias: false,
                };
                let finer = b.m.op(twice, &[coarse], &format!("{name}.finer"));
                x = b.add(x, finer, &format!("{name}.sum"));
            }
            last = Some(x);
            if level < STAGES - 1 {
                b.m.tap(format!("out.fpn_hidden_states.{level}"), x);
            }
            match level {
                0 => self.finer(b, x, "conv_s0", c / 8, FINE)?,
                1 => self.finer(b, x, "conv_s1", c / 4, MIDDLE)?,
                2 => {
                    if self.video.is_some() {
                        b.m.output("image_features", x);
                    }
                    let none = b.tensor("no_memory_embedding", &[1, 1, c])?;
                    let none = b.reshape(none, &[1, c, 1, 1].map(Dim::from), "no_memory");
                    let x = b.add(x, none, "image_embeddings");
                    b.m.output("image_embeddings", x);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Features that the decoder adds where it makes masks.
    fn finer(
        &self,
        b: &mut Make<'_, '_>,
        x: Tensor,
        conv: &str,
        width: u64,
        output: &str,
    ) -> Result<()> {
        let shape = [width, self.masks.width, 1];
        let x = b.conv(x, &format!("mask_decoder.{conv}"), shape, Window::new(2), true)?;
        b.m.output(output, x);
        Ok(())
    }
}

/// The largest of two by two places of `[N, n, n, D]`; of an odd edge the last place is left out.
fn pooled(b: &mut Make<'_, '_>, x: Tensor, name: &str) -> Tensor {
    let window = Window::new(2).stride(&[2, 2]);
    let pool = Pool { kind: PoolKind::Max, kernel: vec![2, 2], window, count_padding: false };
    let x = b.transpose(x, &FIRST, &format!("{name}.channels"));
    let x = b.m.op(pool, &[x], name);
    b.transpose(x, &LAST, &format!("{name}.last"))
}
