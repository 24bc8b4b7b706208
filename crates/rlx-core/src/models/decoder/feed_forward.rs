//! A layer's feed-forward: one for all rows, or experts of which each row chooses some.

use super::names::Part;
use super::{Builder, scaled, small_row};
use crate::error::Result;
use crate::ir::hir::{GegluFfn, Linear, Module, MoeFfn, RmsNorm, SwigluFfn, Tensor};
use crate::math;
use crate::models::naming::Naming;
use crate::models::widen::widened;
use crate::ops::{Binary, Concat, Reshape, Route, Slice, Transpose, Unary, Zip};
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
    /// One for all rows and a mixture of experts side by side, each with norms of its own around it, whose sum is the
    /// branch's: Gemma 4's. Experts and router read the rows before the branch's norm.
    Both {
        /// F of the one for all rows.
        width: u64,
        /// The experts.
        experts: Experts,
    },
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
    /// Bounds both factors of the gated product, whose second one then has 1 added.
    pub limit: Option<f32>,
    /// Whether the router and the experts have biases.
    pub bias: bool,
    /// Whether experts have weights that their shares are multiplied by.
    pub weighted: bool,
    /// How transformers' folders hold them.
    pub folder: Banks,
    /// One that all rows use beside those that they choose.
    pub shared: Option<Shared>,
}

/// How the matrices of all experts stand in transformers' folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Banks {
    /// Each expert's in tensors of their own.
    Apart,
    /// The gates and ups of all experts in one tensor `[E, 2 F, D]`, gates first.
    Halves,
    /// The same, transposed `[E, D, 2 F]`, a gate's row and an up's in turn; or not transposed, in MXFP4.
    TransposedPairs,
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
            FeedForward::Both { width, experts } => match FeedForward::Experts(experts).small() {
                FeedForward::Experts(experts) => {
                    FeedForward::Both { width: small_row(width), experts }
                }
                other => other,
            },
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
        [x, residual]: [Tensor; 2],
        ffn: &FeedForward,
        i: usize,
    ) -> Result<Tensor> {
        let dim = self.model.dim;
        let at = |part| self.names.layer(i, part);
        let label = format!("blk.{i}.ffn");
        let (width, act, fused, bias) = match ffn {
            &FeedForward::Gated { width, act, fused, bias } => (width, act, fused, bias),
            FeedForward::Experts(e) => return self.experts(m, x, None, e, i),
            FeedForward::Both { width, experts } => {
                return self.side_by_side(m, [x, residual], *width, experts, i);
            }
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

    /// The feed-forward of all rows `x`, and the experts of the rows `residual` that its norm read.
    fn side_by_side(
        &self,
        m: &mut Module,
        [x, residual]: [Tensor; 2],
        width: u64,
        e: &Experts,
        i: usize,
    ) -> Result<Tensor> {
        let norm = |m: &mut Module, x, part, label: &str| {
            self.norm(m, x, self.names.layer(i, part), &format!("blk.{i}.ffn_{label}"))
        };
        let dense = FeedForward::gated(width, e.act);
        let y = self.feed_forward(m, [x, residual], &dense, i)?;
        let y = norm(m, y, Part::DensePostNorm, "dense_post_norm")?;
        let h = norm(m, residual, Part::ExpertsNorm, "experts_norm")?;
        // The router's norm has a weight, which is divided by the root of a row's width.
        let dim = self.model.dim;
        let scale = self.tensors.weight(&self.names.layer(i, Part::RouterScale), &[dim])?;
        let scale = m.weight(scale);
        let by = (1.0 / math::sqrt(dim as f64)) as f32;
        let scale = scaled(m, scale, by, dim, &format!("blk.{i}.ffn_router_scale"))?;
        let eps = self.model.eps;
        let scored =
            m.push(RmsNorm { eps }, &[residual, scale], format!("blk.{i}.ffn_router_norm"));
        let z = self.experts(m, h, Some(scored), e, i)?;
        let z = norm(m, z, Part::ExpertsPostNorm, "experts_post_norm")?;
        Ok(m.add(y, z, &format!("blk.{i}.ffn_both")))
    }

    /// The experts of the rows `x`, which the router chooses by the rows `scored`, or by `x`.
    fn experts(
        &self,
        m: &mut Module,
        x: Tensor,
        scored: Option<Tensor>,
        e: &Experts,
        i: usize,
    ) -> Result<Tensor> {
        let (dim, label) = (self.model.dim, format!("blk.{i}.ffn"));
        let router = self.names.layer(i, Part::Router);
        let router = self.tensors.linear_biased(&router, [e.count, dim], Some(e.bias))?;
        let router = Vec::from_iter([Some(router.weight), router.bias].into_iter().flatten());
        let fused = match self.names.naming {
            Naming::Transformers => e.folder != Banks::Apart,
            Naming::Gguf => self.tensors.has(&self.names.layer(i, Part::GateUpExperts)),
        };
        let banks = match fused {
            true => self.fused(m, e, i)?,
            false => {
                let into = [e.count, e.width, dim];
                let mut banks = self.bank(m, Part::GateExperts, into, e, i)?;
                banks.extend(self.bank(m, Part::UpExperts, into, e, i)?);
                banks.extend(self.bank(m, Part::DownExperts, [e.count, dim, e.width], e, i)?);
                banks
            }
        };
        let block = MoeFfn {
            act: e.act,
            route: e.route.clone(),
            limit: e.limit,
            bias: e.bias,
            scored: scored.is_some(),
            weighted: e.weighted,
        };
        let mut inputs = Vec::from_iter([Some(x), scored].into_iter().flatten());
        inputs.extend(router.into_iter().map(|w| m.weight(w)));
        inputs.extend(banks);
        if e.route.choice_bias {
            let name = self.names.layer(i, Part::ChoiceBias);
            inputs.push(m.weight(self.tensors.weight(&name, &[e.count])?));
        }
        if e.weighted {
            let name = self.names.layer(i, Part::ExpertScale);
            inputs.push(m.weight(self.tensors.weight(&name, &[e.count])?));
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

    /// One matrix of all experts, `[E, out, in]`, and its biases `[E, out]`: tensors of GGUF files, and a tensor for
    /// each expert in transformers' folders, which stand one behind the other once they are loaded.
    fn bank(
        &self,
        m: &mut Module,
        part: Part,
        dims: [u64; 3],
        e: &Experts,
        i: usize,
    ) -> Result<Vec<Tensor>> {
        let name = self.names.layer(i, part);
        let [experts, out, input] = dims;
        if self.names.naming == Naming::Gguf {
            let weight = self.tensors.weight(&format!("{name}.weight"), &dims)?;
            let mut bank = Vec::from([m.weight(weight)]);
            if e.bias {
                let bias = self.tensors.weight(&format!("{name}.bias"), &[experts, out])?;
                bank.push(widened(m, bias));
            }
            return Ok(bank);
        }
        // No known family has biases of experts in tensors of their own.
        let one = Shape([1, out, input].map(Dim::from).to_vec());
        let mut all = Vec::new();
        for e in 0..experts {
            let name = format!("{name}.weight").replace('#', &format!("{e}"));
            let weight = m.weight(self.tensors.weight(&name, &[out, input])?);
            all.push(m.op(Reshape { dims: one.clone() }, &[weight], &name));
        }
        Ok(Vec::from([m.op(Concat { axis: 0 }, &all, &name)]))
    }

    /// The three matrices of all experts, each with its biases, where gate and up are one tensor.
    fn fused(&self, m: &mut Module, e: &Experts, i: usize) -> Result<Vec<Tensor>> {
        let dim = self.model.dim;
        // A GGUF file that has gates and ups in one tensor has them in halves.
        let folder = self.names.naming == Naming::Transformers;
        let pairs = folder && e.folder == Banks::TransposedPairs;
        if pairs && self.tensors.is_microscaled(&self.names.layer(i, Part::GateUpExperts)) {
            return self.microscaled(m, e, i);
        }
        let turned =
            |[e, out, input]: [u64; 3]| if pairs { [e, input, out] } else { [e, out, input] };
        let mut whole = |part, dims| -> Result<Vec<Tensor>> {
            let mut name = self.names.layer(i, part);
            if part == Part::DownExperts && !folder {
                name += ".weight";
            }
            let mut w = m.weight(self.tensors.weight(&name, &turned(dims))?);
            if pairs {
                w = m.op(Transpose { perm: Vec::from([0, 2, 1]) }, &[w], &format!("{name}_turned"));
            }
            let mut bank = Vec::from([w]);
            if e.bias {
                let bias = self.tensors.weight(&format!("{name}_bias"), &dims[..2])?;
                bank.push(widened(m, bias));
            }
            Ok(bank)
        };
        let both = whole(Part::GateUpExperts, [e.count, 2 * e.width, dim])?;
        let down = whole(Part::DownExperts, [e.count, dim, e.width])?;
        let (len, step) = (Dim::from(e.width), if pairs { 2 } else { 1 });
        let mut banks = Vec::new();
        for (n, label) in (0..).zip(["gate", "up"]) {
            let start = Dim::from(if pairs { n } else { n * e.width });
            for &of in &both {
                let part = Slice { axis: 1, start: start.clone(), len: len.clone(), step };
                banks.push(m.op(part, &[of], &format!("blk.{i}.ffn_{label}_experts")));
            }
        }
        banks.extend(down);
        Ok(banks)
    }

    /// The same of a folder that has the matrices in MXFP4.
    fn microscaled(&self, m: &mut Module, e: &Experts, i: usize) -> Result<Vec<Tensor>> {
        let dim = self.model.dim;
        let bias = |m: &mut Module, name: &str, out: u64| -> Result<Option<Tensor>> {
            let name = format!("{name}_bias");
            Ok(match e.bias {
                true => Some(widened(m, self.tensors.weight(&name, &[e.count, out])?)),
                false => None,
            })
        };
        let (mut banks, name) = (Vec::new(), self.names.layer(i, Part::GateUpExperts));
        let biases = bias(m, &name, 2 * e.width)?;
        for (first, label) in (0..).zip(["gate", "up"]) {
            let both = [e.count, 2 * e.width, dim];
            let weight = self.tensors.microscaled(&name, both, [first, 2])?;
            banks.push(m.weight(weight));
            if let Some(biases) = biases {
                let own = Slice { axis: 1, start: first.into(), len: Dim::from(e.width), step: 2 };
                banks.push(m.op(own, &[biases], &format!("blk.{i}.ffn_{label}_experts_bias")));
            }
        }
        let name = self.names.layer(i, Part::DownExperts);
        let weight = self.tensors.microscaled(&name, [e.count, dim, e.width], [0, 1])?;
        banks.push(m.weight(weight));
        banks.extend(bias(m, &name, dim)?);
        Ok(banks)
    }
}
