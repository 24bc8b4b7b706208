//! A layer's attention over latent rows: keys and values of all heads are products of one short row, and the
//! cache holds that row (DeepSeek-V2, arXiv:2405.04434, section 2.1).
//!
//! H heads   N width of a query without positions   P width that turns   R width of a latent row   V of a value
//!
//! ```text
//! c = norm(x W_c) [S, R]      p = turn(x W_p) [S, P]      cached: [p | c]
//! q_n [S, H, N], q_p [S, H, P] = x W_q, or norm(x W_a) W_q
//! score   q_p . p + q_n . (c W_k) = [turn(q_p) | q_n W_k^T] . [p | c]
//! y       softmax(score) (c W_v)  = (softmax(score) c) W_v
//! ```
//!
//! The products with `W_k [H, N, R]` and `W_v [H, V, R]` belong to the query's side, so that one head of keys,
//! which are the values too, serves all heads of queries.

use super::names::Part;
use super::{Builder, join_heads, split_heads};
use crate::error::Result;
use crate::ir::hir::{AttentionSpec, KeyValues, Linear, Module, RmsNorm, Tensor, Weight};
use crate::models::naming::Naming;
use crate::ops::{Concat, GroupedMatMul, Iota, Reshape, Slice, Transpose};
use crate::types::{DType, Dim, SEQ, Shape};
use alloc::format;
use alloc::vec;

/// Added to the mean square in the norms of latent rows, whatever the other norms add.
const EPS: f32 = 1e-6;

/// Attention over latent rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatentAttention {
    /// H.
    pub heads: u64,
    /// N.
    pub plain: u64,
    /// P.
    pub turned: u64,
    /// V.
    pub value: u64,
    /// R.
    pub latent: u64,
    /// Width of the latent row of queries; `None`: they are products of the layer's rows.
    pub query_latent: Option<u64>,
    /// Multiplies the scores.
    pub scale: f32,
}

impl LatentAttention {
    /// The same with few heads: what a twin has.
    pub(super) fn small(&self) -> Self {
        LatentAttention { heads: self.heads.min(3), ..*self }
    }
}

impl Builder<'_> {
    pub(super) fn latent_attention(
        &self,
        m: &mut Module,
        h: Tensor,
        a: &LatentAttention,
        i: usize,
    ) -> Result<Tensor> {
        let (dim, cached) = (self.model.dim, a.turned + a.latent);
        let at = |part| self.names.layer(i, part);
        let label = |part: &str| format!("blk.{i}.attn_{part}");
        let weight = |part, dims| -> Result<Weight> {
            // No known family has biases here.
            Ok(self.tensors.linear_biased(&at(part), dims, Some(false))?.weight)
        };
        let linear = |m: &mut Module, x: Tensor, w: Tensor, part: &str| {
            m.push(Linear { bias: false, act: None }, &[x, w], label(part))
        };
        let norm = |m: &mut Module, x: Tensor, part, width: u64, name: &str| -> Result<Tensor> {
            let w = self.tensors.weight(&format!("{}.weight", at(part)), &[width])?;
            let w = m.weight(w);
            Ok(m.push(RmsNorm { eps: EPS }, &[x, w], label(name)))
        };

        // The row that is cached: what turns stands first, as of any head of which a part turns.
        let (turned_label, latent_label) = (label("k_turned"), label("latent"));
        let both = weight(Part::LatentKv, [a.latent + a.turned, dim])?;
        let labels = [&*latent_label, &*turned_label];
        let [latent, turned] = self.rows(m, both, [a.latent, a.turned], labels);
        let latent = linear(m, h, latent, "latent");
        let turned = linear(m, h, turned, "k_turned");
        let latent = norm(m, latent, Part::LatentKvNorm, a.latent, "latent_norm")?;
        let k = m.op(Concat { axis: 1 }, &[turned, latent], &label("k"));

        let q_width = a.heads * (a.plain + a.turned);
        let (x, all) = match a.query_latent {
            None => (h, weight(Part::Q, [q_width, dim])?),
            Some(width) => {
                let down = m.weight(weight(Part::LatentQ, [width, dim])?);
                let x = linear(m, h, down, "q_latent");
                let x = norm(m, x, Part::LatentQNorm, width, "q_latent_norm")?;
                (x, weight(Part::LatentQUp, [q_width, width])?)
            }
        };
        let mut q = |start, len, name: &str| {
            let w = self.grouped_rows(m, &all, a.heads, [start, len], &label(name));
            let q = linear(m, x, w, name);
            split_heads(m, q, [a.heads, len], &label(&format!("{name}_heads")))
        };
        let (plain, turned) = (q(0, a.plain, "q_plain"), q(a.plain, a.turned, "q_turned"));

        // Every head is the expert of its own rows.
        let dims = Shape(vec![Dim::symbol(SEQ), a.heads.into()]);
        let each = m.op(Iota { dtype: DType::U32, dims, axis: 1 }, &[], "attn_heads");
        let [keys, values] = self.latent_banks(m, a, i)?;
        let product = |m: &mut Module, x: Tensor, bank: Tensor, name: &str| {
            m.op(GroupedMatMul::default(), &[x, bank, each], &label(name))
        };
        let absorbed = product(m, plain, keys, "q_absorbed");
        let q = m.op(Concat { axis: 2 }, &[turned, absorbed], &label("q_cached"));
        let q = join_heads(m, q, a.heads * cached, &label("q"));
        let spec = AttentionSpec {
            layer: i,
            heads: a.heads as usize,
            kv_heads: 1,
            head_dim: cached as usize,
            scale: a.scale,
            window: None,
            softcap: None,
            rope_style: self.model.rope_style,
            rope: self.model.rotary.first().map(|r| r.table(m.context)),
            rope_factors: self.divisors.first().cloned().flatten(),
            qk_norm: None,
            sinks: None,
            block: self.model.diffusion.map(|d| d.block),
        };
        let y = m.attention(q, KeyValues::Keys(k), spec);
        let y = split_heads(m, y, [a.heads, cached], &label("heads"));
        let part = Slice { axis: 2, start: a.turned.into(), len: a.latent.into(), step: 1 };
        let y = m.op(part, &[y], &label("latent_sum"));
        let y = product(m, y, values, "values");
        let y = join_heads(m, y, a.heads * a.value, &label("rows"));
        let o = self.tensors.linear_biased(&at(Part::O), [dim, a.heads * a.value], Some(false))?;
        Ok(m.linear(y, o, &label("output")))
    }

    /// `W_k^T [H, R, N]` and `W_v [H, V, R]`. Newer GGUF files have them so; in other files they are one tensor.
    fn latent_banks(&self, m: &mut Module, a: &LatentAttention, i: usize) -> Result<[Tensor; 2]> {
        let at = |part| format!("{}.weight", self.names.layer(i, part));
        let (keys, values) = (at(Part::LatentKeys), at(Part::LatentValues));
        if self.names.naming == Naming::Gguf && self.tensors.has(&keys) {
            // A file that has both forms has the same twice.
            let both = at(Part::LatentKvUp);
            self.tensors.inert(|name| name == both);
            let keys = self.tensors.weight(&keys, &[a.heads, a.latent, a.plain])?;
            let values = self.tensors.weight(&values, &[a.heads, a.value, a.latent])?;
            return Ok([m.weight(keys), m.weight(values)]);
        }
        let both = [a.heads * (a.plain + a.value), a.latent];
        let both = self.tensors.weight(&at(Part::LatentKvUp), &both)?;
        let mut part = |start: u64, len: u64, name: &str| {
            let label = format!("blk.{i}.attn_{name}");
            let w = self.grouped_rows(m, &both, a.heads, [start, len], &label);
            let dims = Shape([a.heads, len, a.latent].map(Dim::from).to_vec());
            m.op(Reshape { dims }, &[w], &format!("{label}_heads"))
        };
        let (mut keys, values) = (part(0, a.plain, "k_up"), part(a.plain, a.value, "v_up"));
        if both.ty.dtype.is_block() {
            keys = m.op(crate::ops::Unpack, &[keys], &format!("blk.{i}.attn_k_up_unpacked"));
        }
        let turn = Transpose { perm: vec![0, 2, 1] };
        Ok([m.op(turn, &[keys], &format!("blk.{i}.attn_k_up_turned")), values])
    }
}
