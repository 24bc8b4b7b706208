//! A layer's linear attention with a gated delta rule (Yang et al. 2024, arXiv:2412.06464), as Qwen3-Next and
//! Qwen3.5 have it.
//!
//! N width of a key   V width of a value   K key heads   H value heads
//!
//! ```text
//! q, k, v = silu(conv(x W_qkv))        q, k of length 1
//! g = -exp(A) softplus(x W_a + dt)     beta = sigmoid(x W_b)
//! y = out(norm(gated_delta_net(q, k, v, g, beta)) * silu(x W_z))
//! ```

use super::Builder;
use super::names::Part;
use crate::error::Result;
use crate::ir::hir::{self, Linear, Module, Tensor, Weight};
use crate::models::naming::Naming;
use crate::ops::{Concat, GatedRmsNorm, Map, Reshape, Slice, Unary};
use crate::types::{Dim, SEQ, Shape};
use alloc::format;
use alloc::vec;

/// Added to the square of a query's or key's length.
const LENGTH_EPS: f32 = 1e-6;

/// Linear attention whose heads each keep a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaNet {
    /// K.
    pub key_heads: u64,
    /// H.
    pub heads: u64,
    /// N.
    pub key_dim: u64,
    /// V.
    pub value_dim: u64,
    /// Taps of the convolution.
    pub kernel: u64,
    /// Value heads of one key head do not follow each other but are K apart: GGUF files of Qwen3.5.
    pub tiled: bool,
    /// How the projections stand in tensors.
    pub projections: Projections,
}

/// How the projections of a [`DeltaNet`] stand in tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projections {
    /// One of q, k and v, one of z, one of a, one of b: Qwen3.5.
    Apart,
    /// One of q, k and v, one of z, and one of b and a by key heads: GGUF files of Qwen3-Next.
    GatesByHead,
    /// One of q, k, v and z by key heads, and one of b and a by key heads: Qwen3-Next.
    ByHead,
}

/// The projections of one layer, applied.
struct Projected {
    /// `[S, 2 K N + H V]`.
    qkv: Tensor,
    /// `[S, H V]`.
    z: Tensor,
    /// `[S, H]`.
    a: Tensor,
    /// `[S, H]`.
    b: Tensor,
}

impl DeltaNet {
    /// The same with few heads: what a twin has.
    pub(super) fn small(&self) -> Self {
        let key_heads = self.key_heads.min(2);
        DeltaNet { key_heads, heads: key_heads * (self.heads / self.key_heads), ..*self }
    }
}

impl Builder<'_> {
    /// Rows `start .. start + len` of each of `groups` groups of a weight's rows.
    pub(super) fn grouped_rows(
        &self,
        m: &mut Module,
        weight: &Weight,
        groups: u64,
        [start, len]: [u64; 2],
        label: &str,
    ) -> Tensor {
        let (dim, rows) = (weight.ty.shape.last(), weight.ty.shape.0[0].as_static().unwrap_or(0));
        let whole = m.weight(weight.clone());
        let split = Shape(vec![groups.into(), (rows / groups).into(), dim.clone()]);
        let split = m.op(Reshape { dims: split }, &[whole], &format!("{label}_groups"));
        let part = Slice { axis: 1, start: start.into(), len: len.into(), step: 1 };
        let part = m.op(part, &[split], &format!("{label}_part"));
        let flat = Shape(vec![(groups * len).into(), dim.clone()]);
        m.op(Reshape { dims: flat }, &[part], &format!("{label}_rows"))
    }

    fn delta_projections(
        &self,
        m: &mut Module,
        h: Tensor,
        d: &DeltaNet,
        i: usize,
    ) -> Result<Projected> {
        let dim = self.model.dim;
        let (keys, values) = (d.key_heads * d.key_dim, d.heads * d.value_dim);
        let label = |part: &str| format!("blk.{i}.delta_{part}");
        let weight = |part, out| -> Result<Weight> {
            let name = self.names.layer(i, part);
            Ok(self.tensors.linear_biased(&name, [out, dim], Some(false))?.weight)
        };
        // All weights before the first product, so that these are segments of one.
        let (group, each) = (d.heads / d.key_heads, d.value_dim * (d.heads / d.key_heads));
        let (qkv, z) = if d.projections == Projections::ByHead {
            let all = weight(Part::DeltaQkvz, 2 * (keys + values))?;
            let mut part = |start, len, name: &str| {
                self.grouped_rows(m, &all, d.key_heads, [start, len], &label(name))
            };
            let (q, k) = (part(0, d.key_dim, "q"), part(d.key_dim, d.key_dim, "k"));
            let v = part(2 * d.key_dim, each, "v");
            let z = part(2 * d.key_dim + each, each, "z");
            (m.op(Concat { axis: 0 }, &[q, k, v], &label("qkv_rows")), z)
        } else {
            let qkv = m.weight(weight(Part::DeltaQkv, 2 * keys + values)?);
            (qkv, m.weight(weight(Part::DeltaZ, values)?))
        };
        let (a, b) = if d.projections == Projections::Apart {
            let a = m.weight(weight(Part::DeltaA, d.heads)?);
            (a, m.weight(weight(Part::DeltaB, d.heads)?))
        } else {
            let both = weight(Part::DeltaBa, 2 * d.heads)?;
            let mut part = |start, name: &str| {
                self.grouped_rows(m, &both, d.key_heads, [start, group], &label(name))
            };
            let b = part(0, "b");
            (part(group, "a"), b)
        };
        let mut linear =
            |w: Tensor, part: &str| m.push(Linear { bias: false, act: None }, &[h, w], label(part));
        let (qkv, z) = (linear(qkv, "qkv"), linear(z, "z"));
        Ok(Projected { qkv, z, a: linear(a, "a"), b: linear(b, "b") })
    }

    pub(super) fn delta_net(
        &self,
        m: &mut Module,
        h: Tensor,
        d: &DeltaNet,
        i: usize,
    ) -> Result<Tensor> {
        let (keys, values) = (d.key_heads * d.key_dim, d.heads * d.value_dim);
        let label = |part: &str| format!("blk.{i}.delta_{part}");
        let name = |part| self.names.layer(i, part);
        let Projected { qkv, z, a, b } = self.delta_projections(m, h, d, i)?;
        let sizes = [2 * keys + values, d.kernel];
        let qkv = self.causal_conv(m, qkv, sizes, Some(Unary::Silu), false, i)?;

        // A GGUF file has -exp(A) itself.
        let decay = m.weight(self.tensors.weight(&name(Part::DeltaDecay), &[d.heads])?);
        let decay = match self.names.naming {
            Naming::Gguf => decay,
            Naming::Transformers => {
                let e = m.op(Map { f: Unary::Exp }, &[decay], &label("decay_exp"));
                m.op(Map { f: Unary::Neg }, &[e], &label("decay"))
            }
        };
        let dt = m.weight(self.tensors.weight(&name(Part::DeltaTime), &[d.heads])?);
        let block = hir::DeltaNet {
            layer: i,
            key_heads: d.key_heads as usize,
            heads: d.heads as usize,
            state_size: d.key_dim as usize,
            width: d.value_dim as usize,
            eps: LENGTH_EPS,
            tiled: d.tiled,
        };
        let y = m.push(block, &[qkv, a, b, decay, dt], label("rule"));
        let norm = format!("{}.weight", name(Part::DeltaNorm));
        let norm = m.weight(self.tensors.weight(&norm, &[d.value_dim])?);
        let rows = |width: &[u64]| {
            let width = width.iter().map(|&n| Dim::from(n));
            Shape(core::iter::once(Dim::symbol(SEQ)).chain(width).collect())
        };
        let z = m.op(Reshape { dims: rows(&[d.heads, d.value_dim]) }, &[z], &label("z_heads"));
        let gate = GatedRmsNorm { eps: self.model.eps, act: Unary::Silu };
        let y = m.op(gate, &[y, norm, z], &label("norm"));
        let y = m.op(Reshape { dims: rows(&[values]) }, &[y], &label("rows"));
        let dims = [self.model.dim, values];
        let out = self.tensors.linear_biased(&name(Part::DeltaOut), dims, Some(false))?;
        Ok(m.linear(y, out, &label("output")))
    }
}
