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
use crate::ir::hir::{GatedDeltaNet, Linear, Module, RmsNorm, Tensor, Weight};
use crate::math;
use crate::models::naming::Naming;
use crate::ops::{Binary, Concat, Constant, Map, Reshape, Slice, Unary, Zip};
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

/// `x [.., width]` as `x [.., heads, width / heads]`.
fn heads(m: &mut Module, x: Tensor, heads: u64, width: u64, label: &str) -> Tensor {
    let dims = Shape(vec![Dim::symbol(SEQ), heads.into(), width.into()]);
    m.op(Reshape { dims }, &[x], label)
}

/// Columns `start ..` of `x`.
fn columns(m: &mut Module, x: Tensor, axis: usize, start: u64, len: u64, label: &str) -> Tensor {
    m.op(Slice { axis, start: start.into(), len: len.into(), step: 1 }, &[x], label)
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
        let part = columns(m, split, 1, start, len, &format!("{label}_part"));
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
        let linear = |m: &mut Module, w: Tensor, part: &str| {
            m.push(Linear { bias: false, act: None }, &[h, w], label(part))
        };
        let whole = |m: &mut Module, part, out, name: &str| -> Result<Tensor> {
            let w = m.weight(weight(part, out)?);
            Ok(linear(m, w, name))
        };
        let (group, each) = (d.heads / d.key_heads, d.value_dim * (d.heads / d.key_heads));
        let (qkv, z) = if d.projections == Projections::ByHead {
            let all = weight(Part::DeltaQkvz, 2 * (keys + values))?;
            let mut part = |start, len, name: &str| {
                let w = self.grouped_rows(m, &all, d.key_heads, [start, len], &label(name));
                linear(m, w, name)
            };
            let (q, k) = (part(0, d.key_dim, "q"), part(d.key_dim, d.key_dim, "k"));
            let v = part(2 * d.key_dim, each, "v");
            let z = part(2 * d.key_dim + each, each, "z");
            let qkv = m.op(Concat { axis: 1 }, &[q, k, v], &label("qkv"));
            (qkv, z)
        } else {
            let qkv = whole(m, Part::DeltaQkv, 2 * keys + values, "qkv")?;
            (qkv, whole(m, Part::DeltaZ, values, "z")?)
        };
        let (a, b) = if d.projections == Projections::Apart {
            (whole(m, Part::DeltaA, d.heads, "a")?, whole(m, Part::DeltaB, d.heads, "b")?)
        } else {
            let both = weight(Part::DeltaBa, 2 * d.heads)?;
            let mut part = |start, name: &str| {
                let w = self.grouped_rows(m, &both, d.key_heads, [start, group], &label(name));
                linear(m, w, name)
            };
            let b = part(0, "b");
            (part(group, "a"), b)
        };
        Ok(Projected { qkv, z, a, b })
    }

    /// Each head's row of `x`, made of length 1.
    fn unit(&self, m: &mut Module, x: Tensor, width: u64, label: &str) -> Result<Tensor> {
        // x / sqrt(|x|^2 + e) is the RMS norm of x with eps e / width, divided by the root of the width.
        let factor = vec![(1.0 / math::sqrt(width as f64)) as f32; width as usize];
        let factor = m.op(Constant::f32s(&[width], &factor)?, &[], &format!("{label}_factor"));
        Ok(m.push(RmsNorm { eps: LENGTH_EPS / width as f32 }, &[x, factor], label))
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

        let channels = 2 * keys + values;
        let qkv = self.causal_conv(m, qkv, [channels, d.kernel], Some(Unary::Silu), i)?;
        let q = columns(m, qkv, 1, 0, keys, &label("q_columns"));
        let k = columns(m, qkv, 1, keys, keys, &label("k_columns"));
        let v = columns(m, qkv, 1, 2 * keys, values, &label("v_columns"));
        let q = heads(m, q, d.key_heads, d.key_dim, &label("q_heads"));
        let k = heads(m, k, d.key_heads, d.key_dim, &label("k_heads"));
        let v = heads(m, v, d.heads, d.value_dim, &label("v_heads"));
        let q = self.unit(m, q, d.key_dim, &label("q_unit"))?;
        let k = self.unit(m, k, d.key_dim, &label("k_unit"))?;

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
        let g = m.op(Zip { f: Binary::Add }, &[a, dt], &label("time"));
        let g = m.op(Map { f: Unary::Softplus }, &[g], &label("time_softplus"));
        let g = m.op(Zip { f: Binary::Mul }, &[g, decay], &label("gate"));
        let beta = m.op(Map { f: Unary::Sigmoid }, &[b], &label("beta"));

        let block = GatedDeltaNet {
            layer: i,
            heads: d.heads as usize,
            state_size: d.key_dim as usize,
            width: d.value_dim as usize,
            carry: true,
            tiled: d.tiled,
        };
        let y = m.push(block, &[q, k, v, g, beta], label("rule"));
        let norm = format!("{}.weight", name(Part::DeltaNorm));
        let norm = m.weight(self.tensors.weight(&norm, &[d.value_dim])?);
        let y = m.push(RmsNorm { eps: self.model.eps }, &[y, norm], label("norm"));
        let flat = Shape(vec![Dim::symbol(SEQ), values.into()]);
        let y = m.op(Reshape { dims: flat }, &[y], &label("rows"));
        let z = m.op(Map { f: Unary::Silu }, &[z], &label("z_silu"));
        let y = m.op(Zip { f: Binary::Mul }, &[y, z], &label("gated"));
        let dims = [self.model.dim, values];
        let out = self.tensors.linear_biased(&name(Part::DeltaOut), dims, Some(false))?;
        Ok(m.linear(y, out, &label("output")))
    }
}
