//! A layer's feed-forward: one for all rows, or experts of which each row chooses some.

use super::names::Part;
use super::{Builder, small_row};
use crate::error::Result;
use crate::ir::hir::{GegluFfn, Linear, Module, MoeFfn, SwigluFfn, Tensor};
use crate::models::naming::Naming;
use crate::ops::{Binary, Concat, Reshape, Route, Unary, Zip};
use crate::types::{Dim, Shape};
use alloc::format;
use alloc::vec::Vec;

/// A feed-forward.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedForward {
    /// `down(f(gate(x)) * up(x))` (arXiv:2002.05202).
    Gated {
        /// F.
        width: u64,
        /// f.
        act: Unary,
        /// Whether the gate and up are rows of one tensor.
        fused: bool,
        /// Whether its linear layers have biases; `None`: as the file has them.
        bias: Option<bool>,
    },
    /// A mixture of experts.
    Experts(Experts),
}

/// Gated feed-forwards of which each row chooses some, by scores of a router (arXiv:1701.06538).
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    /// How many there are.
    pub count: u64,
    /// Which of them a row goes to, and what each counts for.
    pub route: Route,
    /// F of each.
    pub width: u64,
    /// What the gate's product goes through.
    pub act: Unary,
    /// One that all rows use beside those that they choose.
    pub shared: Option<Shared>,
}

impl Experts {
    /// The same with few experts, but more than a row chooses.
    fn few(self) -> Self {
        let Route { top_k, groups, top_groups, group_sum, .. } = self.route;
        if !self.route.has_groups() {
            return Experts { count: self.count.min(2 * top_k as u64 + 1), ..self };
        }
        // One group is left out, and the others have just enough to choose from.
        let small = top_groups + 1;
        let each = top_k.div_ceil(top_groups.max(1)).max(group_sum) as u64;
        let count = each * small as u64;
        if small > groups || count >= self.count {
            return self;
        }
        Experts { count, route: Route { groups: small, ..self.route }, ..self }
    }
}

/// The expert of all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// F.
    pub width: u64,
    /// Whether its result is multiplied by the sigmoid of a score.
    pub scored: bool,
}

impl FeedForward {
    /// Without biases, each of its weights a tensor.
    pub fn gated(width: u64, act: Unary) -> Self {
        FeedForward::Gated { width, act, fused: false, bias: Some(false) }
    }

    /// The same with short rows: what a twin has.
    pub(super) fn small(&self) -> Self {
        match self.clone() {
            FeedForward::Gated { width, act, fused, bias } => {
                FeedForward::Gated { width: small_row(width), act, fused, bias }
            }
            FeedForward::Experts(e) => FeedForward::Experts(Experts {
                width: small_row(e.width),
                shared: e.shared.map(|s| Shared { width: small_row(s.width), ..s }),
                ..e.few()
            }),
        }
    }
}

/// A linear layer's weight and bias.
type Layer = (Tensor, Option<Tensor>);

/// A linear layer, and a function of its result.
fn linear(m: &mut Module, x: Tensor, (w, b): Layer, act: Option<Unary>, label: &str) -> Tensor {
    let inputs: Vec<Tensor> = [x, w].into_iter().chain(b).collect();
    m.push(Linear { bias: b.is_some(), act }, &inputs, label)
}

/// `down(f(gate(x)) * up(x))`.
fn gated(m: &mut Module, x: Tensor, layers: [Layer; 3], f: Unary, label: &str) -> Tensor {
    let [gate_bias, up_bias, down_bias] = layers.map(|l| l.1.is_some());
    let mut inputs = Vec::from([x]);
    inputs.extend(layers.iter().flat_map(|l| [Some(l.0), l.1]).flatten());
    match f {
        Unary::Silu => m.push(SwigluFfn { gate_bias, up_bias, down_bias }, &inputs, label),
        Unary::Gelu => m.push(GegluFfn { gate_bias, up_bias, down_bias }, &inputs, label),
        f => {
            let [gate, up, down] = layers;
            let gate = linear(m, x, gate, Some(f), &format!("{label}_gate"));
            let up = linear(m, x, up, None, &format!("{label}_up"));
            let y = m.op(Zip { f: Binary::Mul }, &[gate, up], &format!("{label}_mul"));
            linear(m, y, down, None, &format!("{label}_down"))
        }
    }
}

impl Builder<'_> {
    pub(super) fn feed_forward(
        &self,
        m: &mut Module,
        x: Tensor,
        ffn: &FeedForward,
        i: usize,
    ) -> Result<Tensor> {
        let dim = self.model.dim;
        let at = |part| self.names.layer(i, part);
        let label = format!("blk.{i}.ffn");
        let (width, act, fused, bias) = match ffn {
            &FeedForward::Gated { width, act, fused, bias } => (width, act, fused, bias),
            FeedForward::Experts(e) => return self.experts(m, x, e, i),
        };
        let weight = |m: &mut Module, part, dims| -> Result<Layer> {
            let w = self.tensors.linear_biased(&at(part), dims, bias)?;
            Ok((m.weight(w.weight), w.bias.map(|b| m.weight(b))))
        };
        let (gate, up) = if fused {
            // No known family has fused weights and a bias.
            let both =
                self.tensors.linear_biased(&at(Part::GateUp), [2 * width, dim], Some(false))?;
            let labels = ["gate", "up"].map(|part| format!("{label}_{part}"));
            let [gate, up] = self.rows(m, both.weight, [width; 2], [&*labels[0], &*labels[1]]);
            ((gate, None), (up, None))
        } else {
            (weight(m, Part::Gate, [width, dim])?, weight(m, Part::Up, [width, dim])?)
        };
        let down = weight(m, Part::Down, [dim, width])?;
        Ok(gated(m, x, [gate, up, down], act, &label))
    }

    fn experts(&self, m: &mut Module, x: Tensor, e: &Experts, i: usize) -> Result<Tensor> {
        let (dim, label) = (self.model.dim, format!("blk.{i}.ffn"));
        let router = format!("{}.weight", self.names.layer(i, Part::Router));
        let router = m.weight(self.tensors.weight(&router, &[e.count, dim])?);
        let gate = self.bank(m, Part::GateExperts, [e.count, e.width, dim], i)?;
        let up = self.bank(m, Part::UpExperts, [e.count, e.width, dim], i)?;
        let down = self.bank(m, Part::DownExperts, [e.count, dim, e.width], i)?;
        let block = MoeFfn { act: e.act, route: e.route.clone() };
        let mut inputs = Vec::from([x, router, gate, up, down]);
        if e.route.choice_bias {
            let bias = self.names.layer(i, Part::ChoiceBias);
            inputs.push(m.weight(self.tensors.weight(&bias, &[e.count])?));
        }
        let y = m.push(block, &inputs, &label);
        let Some(shared) = e.shared else { return Ok(y) };
        let z = self.shared_expert(m, x, e.act, shared, i)?;
        Ok(m.add(y, z, &format!("{label}_with_shared")))
    }

    fn shared_expert(
        &self,
        m: &mut Module,
        x: Tensor,
        act: Unary,
        shared: Shared,
        i: usize,
    ) -> Result<Tensor> {
        let dim = self.model.dim;
        let label = format!("blk.{i}.ffn_shared");
        let mut weight = |part, dims| -> Result<Layer> {
            let name = self.names.layer(i, part);
            Ok((m.weight(self.tensors.linear_biased(&name, dims, Some(false))?.weight), None))
        };
        let layers = [
            weight(Part::SharedGate, [shared.width, dim])?,
            weight(Part::SharedUp, [shared.width, dim])?,
            weight(Part::SharedDown, [dim, shared.width])?,
        ];
        let y = gated(m, x, layers, act, &label);
        if !shared.scored {
            return Ok(y);
        }
        let name = format!("{}.weight", self.names.layer(i, Part::SharedScore));
        let row = Shape([1, dim].map(Dim::from).to_vec());
        let w = match self.tensors.find(&name) {
            Some((_, [_])) => {
                let w = m.weight(self.tensors.weight(&name, &[dim])?);
                m.op(Reshape { dims: row }, &[w], &format!("{label}_score_row"))
            }
            _ => m.weight(self.tensors.weight(&name, &[1, dim])?),
        };
        let act = Some(Unary::Sigmoid);
        let score = linear(m, x, (w, None), act, &format!("{label}_score"));
        Ok(m.op(Zip { f: Binary::Mul }, &[y, score], &format!("{label}_scored")))
    }

    /// One matrix of all experts, `[E, out, in]`: a tensor of GGUF files, and a tensor for each expert in
    /// transformers' folders, which stand one behind the other once they are loaded.
    fn bank(&self, m: &mut Module, part: Part, dims: [u64; 3], i: usize) -> Result<Tensor> {
        let name = format!("{}.weight", self.names.layer(i, part));
        let [experts, out, input] = dims;
        if self.names.naming == Naming::Gguf {
            return Ok(m.weight(self.tensors.weight(&name, &dims)?));
        }
        let one = Shape([1, out, input].map(Dim::from).to_vec());
        let mut all = Vec::new();
        for e in 0..experts {
            let name = name.replace('#', &format!("{e}"));
            let weight = m.weight(self.tensors.weight(&name, &[out, input])?);
            all.push(m.op(Reshape { dims: one.clone() }, &[weight], &name));
        }
        Ok(m.op(Concat { axis: 0 }, &all, &name))
    }
}
