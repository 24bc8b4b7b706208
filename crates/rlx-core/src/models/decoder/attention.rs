//! A layer's attention: projections, norms of heads, rotary positions, the cache.

use super::names::Part;
use super::{Builder, Layer, Mixer, join_heads, split_heads};
use crate::error::Result;
use crate::ir::hir::{AttentionSpec, KeyValues, Linear, Module, RmsNorm, Tensor, Weight};
use crate::math;
use crate::ops::{Binary, Constant, Map, Slice, Unary, Zip};
use crate::types::Dim;
use alloc::format;
use alloc::vec;

/// Over what q and k are normalised before they rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// Over each head, all by the same weights `[E]`: Qwen 3's.
    Head,
    /// Over all heads together, by weights `[H * E]` and `[K * E]`: OLMo 2's.
    Row,
}

/// Where a layer's attention has its keys and values from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvSource {
    /// The layer's own projections, in caches of its own.
    Own,
    /// The same without a projection of values: these are the keys before their norm and rotation.
    KeysAsValues,
    /// The caches of the earlier layer of that number.
    Shared(usize),
}

/// Attention over the keys and values of all rows so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// H.
    pub heads: u64,
    /// K.
    pub kv_heads: u64,
    /// E.
    pub head_dim: u64,
    /// Rows that a row sees before its own, at most.
    pub window: Option<u64>,
    /// Which of the model's rotary positions turn q and k; `None`: nothing turns them.
    pub rotary: Option<usize>,
    /// Multiplies the scores; `1 / sqrt(E)` if there is none.
    pub scale: Option<f32>,
    /// Bounds the scores.
    pub softcap: Option<f32>,
    /// Whether heads have sinks: a score that joins the softmax and has no value.
    pub sinks: bool,
    /// Norms of q and k.
    pub qk_norm: Option<QkNorm>,
    /// Where keys and values come from.
    pub kv_source: KvSource,
    /// Whether values are normalised too: each head, without weights.
    pub v_norm: bool,
    /// Whether q, k and v are rows of one tensor.
    pub fused: bool,
    /// Whether the tensor of q has a gate behind each head's query: its sigmoid multiplies the head's result.
    pub gated: bool,
    /// Whether q, k and v have biases; `None`: as the file has them.
    pub bias: Option<bool>,
    /// Whether the output has a bias; `None`: as the file has it.
    pub output_bias: Option<bool>,
}

impl Attention {
    /// Of LLaMA: the first rotary positions, no window, no norms.
    pub fn new([heads, kv_heads, head_dim]: [u64; 3], bias: Option<bool>) -> Self {
        Attention {
            heads,
            kv_heads,
            head_dim,
            window: None,
            rotary: Some(0),
            scale: None,
            softcap: None,
            sinks: false,
            qk_norm: None,
            kv_source: KvSource::Own,
            v_norm: false,
            fused: false,
            gated: false,
            bias,
            output_bias: bias,
        }
    }

    /// The same with few heads and a short window: what a twin has.
    pub(super) fn small(&self) -> Self {
        let group = self.heads / self.kv_heads;
        let width = |kv_heads: u64| kv_heads * group * self.head_dim % 256;
        // Two of them, where there are two, so that a kernel must tell them apart.
        let kv_heads = (self.kv_heads.min(2)..self.kv_heads)
            .find(|&n| width(n) == width(self.kv_heads))
            .unwrap_or(self.kv_heads);
        Attention {
            heads: kv_heads * group,
            kv_heads,
            // Less than a prompt of the twin, so that it leaves something out.
            window: self.window.map(|w| w.min(37)),
            ..self.clone()
        }
    }
}

/// Makes layers of a twin that share another layer's caches share those of a layer of the twin: the last one before
/// them that writes caches of the same sizes.
pub(super) fn share_within(layers: &mut [Layer]) {
    let sizes = |a: &Attention| (a.kv_heads, a.head_dim, a.window);
    for i in 0..layers.len() {
        let (before, rest) = layers.split_at_mut(i);
        let Some(Mixer::Attention(a)) = rest.first_mut().map(|layer| &mut layer.mixer) else {
            continue;
        };
        let own = sizes(a);
        if let KvSource::Shared(layer) = &mut a.kv_source {
            let writes = |l: &Layer| match &l.mixer {
                Mixer::Attention(b) => {
                    !matches!(b.kv_source, KvSource::Shared(_)) && sizes(b) == own
                }
                _ => false,
            };
            *layer = before.iter().rposition(writes).unwrap_or(0);
        }
    }
}

impl Builder<'_> {
    /// Weights of linear layers that are the rows of one tensor, one behind the other.
    pub(super) fn rows<const N: usize>(
        &self,
        m: &mut Module,
        whole: Weight,
        lens: [u64; N],
        labels: [&str; N],
    ) -> [Tensor; N] {
        let weight = m.weight(whole);
        let (mut start, mut labels) = (0, labels.iter());
        lens.map(|len| {
            let part = Slice { axis: 0, start: Dim::from(start), len: Dim::from(len), step: 1 };
            start += len;
            let label = labels.next().copied().unwrap_or_default();
            m.op(part, &[weight], &format!("{label}_rows"))
        })
    }

    /// RMS norm of each head of `x [SEQ, heads * width]`, without weights.
    fn head_norm(
        &self,
        m: &mut Module,
        x: Tensor,
        [heads, width]: [u64; 2],
        label: &str,
    ) -> Result<Tensor> {
        let x = split_heads(m, x, [heads, width], &format!("{label}_heads"));
        let ones = Constant::f32s(&[width], &vec![1.0; width as usize])?;
        let ones = m.op(ones, &[], &format!("{label}_ones"));
        let x = m.push(RmsNorm { eps: self.model.eps }, &[x, ones], label);
        Ok(join_heads(m, x, heads * width, &format!("{label}_rows")))
    }

    /// `o(attention(q, k, v))`.
    pub(super) fn attention(
        &self,
        m: &mut Module,
        h: Tensor,
        a: &Attention,
        i: usize,
    ) -> Result<Tensor> {
        let (dim, q_dim, kv_dim) = (self.model.dim, a.heads * a.head_dim, a.kv_heads * a.head_dim);
        let at = |part| self.names.layer(i, part);
        let label = |part: &str| format!("blk.{i}.{part}");
        let (q_label, k_label, v_label) = (label("attn_q"), label("attn_k"), label("attn_v"));
        let mut gate = None;
        let [q, k, v] = if a.fused {
            // No known family has fused weights and a bias.
            let all = [q_dim + 2 * kv_dim, dim];
            let all = self.tensors.linear_biased(&at(Part::Qkv), all, Some(false))?.weight;
            let labels = [&*q_label, &*k_label, &*v_label];
            let [q, k, v] = self.rows(m, all, [q_dim, kv_dim, kv_dim], labels);
            let mut linear = |w, label| m.push(Linear { bias: false, act: None }, &[h, w], label);
            [linear(q, &q_label), linear(k, &k_label), linear(v, &v_label)]
        } else {
            let linear = |part, out| self.tensors.linear_biased(&at(part), [out, dim], a.bias);
            let q = if a.gated {
                // No known family has a gate and a bias.
                let both = [2 * q_dim, dim];
                let both = self.tensors.linear_biased(&at(Part::Q), both, Some(false))?.weight;
                let mut half = |start, label: &str| {
                    let w = self.grouped_rows(m, &both, a.heads, [start, a.head_dim], label);
                    m.push(Linear { bias: false, act: None }, &[h, w], label)
                };
                let q = half(0, &q_label);
                gate = Some(half(a.head_dim, &label("attn_gate")));
                q
            } else {
                m.linear(h, linear(Part::Q, q_dim)?, &q_label)
            };
            match a.kv_source {
                KvSource::Own => {
                    let k = m.linear(h, linear(Part::K, kv_dim)?, &k_label);
                    [q, k, m.linear(h, linear(Part::V, kv_dim)?, &v_label)]
                }
                KvSource::KeysAsValues => {
                    let k = m.linear(h, linear(Part::K, kv_dim)?, &k_label);
                    [q, k, k]
                }
                KvSource::Shared(_) => {
                    // A file may hold what the layer would have of its own.
                    let unused = [Part::K, Part::V, Part::KNorm].map(at);
                    self.tensors
                        .inert(|n| unused.iter().any(|u| n.strip_prefix(&**u) == Some(".weight")));
                    [q; 3]
                }
            }
        };
        let v = match a.v_norm {
            true => self.head_norm(m, v, [a.kv_heads, a.head_dim], &label("attn_v_norm"))?,
            false => v,
        };
        let kv = match a.kv_source {
            KvSource::Own | KvSource::KeysAsValues => KeyValues::Both(k, v),
            KvSource::Shared(layer) => KeyValues::Of(layer),
        };
        let qk_norm = match a.qk_norm {
            Some(over) => {
                let [q, k] = match over {
                    QkNorm::Head => [a.head_dim; 2],
                    QkNorm::Row => [q_dim, kv_dim],
                };
                let q = self.norm_weight(m, &at(Part::QNorm), q, &label("attn_q_norm"))?;
                let k = match a.kv_source {
                    KvSource::Shared(_) => q,
                    _ => self.norm_weight(m, &at(Part::KNorm), k, &label("attn_k_norm"))?,
                };
                Some(([q, k], self.model.eps))
            }
            None => None,
        };
        let sinks = match a.sinks {
            true => Some(m.weight(self.tensors.weight(&at(Part::Sinks), &[a.heads])?)),
            false => None,
        };
        let plain = (1.0 / math::sqrt(a.head_dim as f64)) as f32;
        let spec = AttentionSpec {
            layer: i,
            heads: a.heads as usize,
            kv_heads: a.kv_heads as usize,
            head_dim: a.head_dim as usize,
            scale: a.scale.unwrap_or(plain),
            window: a.window,
            softcap: a.softcap,
            rope_style: self.model.rope_style,
            rope: a.rotary.map(|n| self.model.rotary[n].table(m.context)),
            rope_factors: a.rotary.and_then(|n| self.divisors[n].clone()),
            qk_norm,
            sinks,
            block: self.model.diffusion.map(|d| d.block),
        };
        let mut y = m.attention(q, kv, spec);
        if let Some(gate) = gate {
            let gate = m.op(Map { f: Unary::Sigmoid }, &[gate], &label("attn_gate_sigmoid"));
            y = m.op(Zip { f: Binary::Mul }, &[y, gate], &label("attn_gated"));
        }
        let o = self.tensors.linear_biased(&at(Part::O), [dim, q_dim], a.output_bias)?;
        Ok(m.linear(y, o, &label("attn_output")))
    }
}
