//! Per-layer inputs (Gemma 3n and Gemma 4): each layer adds something of the token itself to the residual stream, by a
//! table of embeddings of its own.
//!
//! ```text
//! p = (embed(token) sqrt(W) + norm(x0 P^T / sqrt(D))) / sqrt(2)      [S, L, W], x0 the first rows
//! x = x + norm((gelu(x G^T) * p[layer]) U^T)                         at the end of a layer
//! ```

use super::names::Part;
use super::{Builder, join_heads, scaled, split_heads};
use crate::error::Result;
use crate::ir::hir::{Embedding, Linear, Module, RmsNorm, Tensor};
use crate::math;
use crate::ops::{Binary, Slice, Unary, Zip};
use crate::types::Dim;
use alloc::format;

impl Builder<'_> {
    /// What all layers take, `[SEQ, L * width]`, of the first rows `x`.
    pub(super) fn layer_inputs(
        &self,
        m: &mut Module,
        ids: Tensor,
        x: Tensor,
        width: u64,
    ) -> Result<Tensor> {
        let (dim, layers) = (self.model.dim, self.model.layers.len() as u64);
        let all = layers * width;
        let [table, projection, norm] = self.names.layer_inputs();
        let weight =
            |name: &str, dims: &[u64]| self.tensors.weight(&format!("{name}.weight"), dims);
        let table = m.weight(weight(table, &[self.model.vocab, all])?);
        let own = m.push(Embedding {}, &[ids, table], "per_layer_embd");
        let projection = m.weight(weight(projection, &[all, dim])?);
        let linear = Linear { bias: false, act: None };
        let y = m.push(linear, &[x, projection], "per_layer_proj");
        let y = split_heads(m, y, [layers, width], "per_layer_proj_layers");
        // y is not divided by the root of D: the norm divides that out again, once its eps is multiplied by D.
        let eps = self.model.eps * dim as f32;
        let norm = m.weight(weight(norm, &[width])?);
        let y = m.push(RmsNorm { eps }, &[y, norm], "per_layer_proj_norm");
        let y = join_heads(m, y, all, "per_layer_proj_rows");
        let half = core::f32::consts::FRAC_1_SQRT_2;
        let y = scaled(m, y, half, all, "per_layer_proj_half")?;
        let root = math::sqrt(width as f64) as f32;
        let own = scaled(m, own, half * root, all, "per_layer_embd_half")?;
        Ok(m.add(own, y, "per_layer_inputs"))
    }

    /// A layer's result `x` with what the layer takes of `inputs`.
    pub(super) fn layer_input(
        &self,
        m: &mut Module,
        x: Tensor,
        inputs: Tensor,
        width: u64,
        i: usize,
    ) -> Result<Tensor> {
        let dim = self.model.dim;
        let at = |part| self.names.layer(i, part);
        let label = |part: &str| format!("blk.{i}.input_{part}");
        let weight = |part, dims| -> Result<_> {
            Ok(self.tensors.linear_biased(&at(part), dims, Some(false))?.weight)
        };
        let gate = m.weight(weight(Part::LayerInputGate, [width, dim])?);
        let gate =
            m.push(Linear { bias: false, act: Some(Unary::Gelu) }, &[x, gate], label("gate"));
        let start = Dim::from(i as u64 * width);
        let part = Slice { axis: 1, start, len: width.into(), step: 1 };
        let part = m.op(part, &[inputs], &label("columns"));
        let y = m.op(Zip { f: Binary::Mul }, &[gate, part], &label("gated"));
        let up = m.weight(weight(Part::LayerInputUp, [dim, width])?);
        let y = m.push(Linear { bias: false, act: None }, &[y, up], label("up"));
        let y = self.norm(m, y, at(Part::LayerInputNorm), &label("norm"))?;
        Ok(m.add(x, y, &label("residual")))
    }
}
