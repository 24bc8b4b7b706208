//! HIR: what a model's author writes. Blocks over tensors, with the model's symbols unbound.
//!
//! A module has parameters (inputs, weights, states) and blocks in order; a block reads parameters
//! and results of earlier blocks. [`Block::Op`] is the escape to any operator of MIR.
//!
//! A builder never fails: a wrong shape comes out of [`lower`](crate::lower::lower) with the label
//! of the block that made it, so a model's file stays free of `?`. Types of results are not known
//! here; the lowering finds them.

mod block;
mod build;
mod caches;
mod print;

pub use block::*;
pub use build::{AttentionSpec, DecoderWeights, FfnWeights, KeyValues, LinearWeights};
pub use caches::Caches;

use super::mir::ParamKind;
use crate::order;
use crate::types::Type;
use alloc::string::String;
use alloc::vec::Vec;

/// A parameter or a block's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tensor {
    /// Parameter of that index.
    Param(u32),
    /// Result of that number, counted over all blocks.
    Result(u32),
}

/// A tensor of the model's file: its name there and its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// Name in the file.
    pub name: String,
    /// Type; matrices are `[out, in]`.
    pub ty: Type,
}

/// What a block becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum FusionPolicy {
    /// The fused operator, at once. What a [`Module`] starts with.
    Direct,
    /// Primitives, which passes fuse where the target gains.
    #[default]
    Fusable,
}

impl FusionPolicy {
    /// The name in text and profiles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fusable => "fusable",
        }
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Direct, Self::Fusable].into_iter().find(|p| p.name() == name)
    }
}

/// A parameter of a module.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name: of a weight, the tensor's in the file.
    pub name: String,
    /// Input, weight or state.
    pub kind: ParamKind,
    /// Its type; sizes may have symbols.
    pub ty: Type,
}

/// A block with its inputs and results.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockNode {
    /// What it is.
    pub block: Block,
    /// Inputs, as the block orders them.
    pub inputs: Vec<Tensor>,
    /// Results, 1..n.
    pub outputs: Vec<Tensor>,
    /// `blk.0.attn_q`.
    pub label: String,
}

/// A model as its author writes it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Module {
    /// The family.
    pub name: String,
    /// What blocks become.
    pub fusion_policy: FusionPolicy,
    /// Parameters. Inputs are parameters of every program, weights and states of those that use
    /// them.
    pub params: Vec<Param>,
    /// Blocks in order.
    pub nodes: Vec<BlockNode>,
    /// Named results; a language model has none, its programs choose.
    pub outputs: Vec<(String, Tensor)>,
    /// Points that a check may look at: name and tensor.
    pub taps: Vec<(String, Tensor)>,
    /// Positions the model is planned for: the capacity of its caches. 0 without caches.
    pub context: u64,
    /// Tokens it knows; 0 for what is no language model.
    pub vocab: u64,
    /// Results so far.
    results: u32,
    /// What stands before every label, with its dot.
    prefix: String,
}

impl Module {
    /// An empty language model for this many positions and tokens, with policy `Direct`.
    pub fn new(name: &str, context: u64, vocab: u64) -> Self {
        let fusion_policy = FusionPolicy::Direct;
        Module { name: name.into(), fusion_policy, context, vocab, ..Self::default() }
    }

    /// An empty module of anything else: no caches, no tokens.
    pub fn graph(name: &str) -> Self {
        Self::new(name, 0, 0)
    }

    /// The same module under another policy.
    #[must_use]
    pub fn with_policy(mut self, policy: FusionPolicy) -> Self {
        self.fusion_policy = policy;
        self
    }

    /// Results of all blocks.
    pub fn results(&self) -> u32 {
        self.results
    }

    /// Positions of a block, if its attention is block-causal.
    pub fn block(&self) -> Option<u64> {
        self.nodes.iter().find_map(|n| match &n.block {
            Block::Attention(a) => a.block,
            _ => None,
        })
    }

    /// Whether it has a head, whose logits a program samples or returns.
    pub fn is_language_model(&self) -> bool {
        self.nodes.iter().any(|n| matches!(n.block, Block::LmHead(_)))
    }

    /// The parameter of that kind, name and type, added on first use. The same name with another
    /// type is an error of the lowering.
    pub fn param(&mut self, kind: ParamKind, name: &str, ty: Type) -> Tensor {
        let have = |p: &Param| p.kind == kind && p.name == name && p.ty == ty;
        let at = self.params.iter().position(have).unwrap_or_else(|| {
            self.params.push(Param { name: name.into(), kind, ty });
            self.params.len() - 1
        });
        Tensor::Param(at as u32)
    }

    /// Memory that the host writes before a step; sizes may have symbols.
    pub fn input(&mut self, name: &str, ty: Type) -> Tensor {
        self.param(ParamKind::Input, name, ty)
    }

    /// A tensor of the model's file.
    pub fn weight(&mut self, weight: Weight) -> Tensor {
        self.param(ParamKind::Weight, &weight.name, weight.ty)
    }

    /// Memory that lives on the device between steps.
    pub fn state(&mut self, name: &str, ty: Type) -> Tensor {
        self.param(ParamKind::State, name, ty)
    }

    /// Appends a block; returns its first result.
    pub fn push(
        &mut self,
        block: impl Into<Block>,
        inputs: &[Tensor],
        label: impl AsRef<str>,
    ) -> Tensor {
        let block = block.into();
        let results = block.results();
        self.push_n(block, inputs, results, label)[0]
    }

    /// Appends a block with `results` results (at least one): what an operator gives, told here
    /// because types are not known yet.
    pub fn push_n(
        &mut self,
        block: impl Into<Block>,
        inputs: &[Tensor],
        results: usize,
        label: impl AsRef<str>,
    ) -> Vec<Tensor> {
        let first = self.results;
        self.results += results.max(1) as u32;
        let outputs: Vec<Tensor> = (first..self.results).map(Tensor::Result).collect();
        self.nodes.push(BlockNode {
            block: block.into(),
            inputs: inputs.to_vec(),
            outputs: outputs.clone(),
            label: self.prefix.clone() + label.as_ref(),
        });
        outputs
    }

    /// Puts `label.` before every label made inside `f`.
    pub fn named<T>(&mut self, label: &str, f: impl FnOnce(&mut Module) -> T) -> T {
        let outer = self.prefix.len();
        self.prefix.push_str(label);
        self.prefix.push('.');
        let value = f(self);
        self.prefix.truncate(outer);
        value
    }

    /// Names a result.
    pub fn output(&mut self, name: impl Into<String>, x: Tensor) {
        self.outputs.push((name.into(), x));
    }

    /// Makes every point that a check may look at an output too, under its name.
    pub fn output_taps(&mut self) {
        for (name, x) in self.taps.clone() {
            self.output(name, x);
        }
    }

    /// Names a tensor that `rlx verify` compares with a record.
    pub fn tap(&mut self, name: impl Into<String>, x: Tensor) {
        self.taps.push((name.into(), x));
    }

    /// Whether caches of this kind are rings in some layer.
    pub fn has_rings(&self, caches: Caches) -> bool {
        self.nodes.iter().any(|node| match &node.block {
            Block::Attention(a) => a.ring(self.context, caches).is_some(),
            Block::DecoderBlock(b) => b.attention().ring(self.context, caches).is_some(),
            _ => false,
        })
    }

    /// Narrows every window to at most so many positions.
    pub(crate) fn narrow(&mut self, most: u64) {
        for node in &mut self.nodes {
            let window = match &mut node.block {
                Block::Attention(a) => &mut a.window,
                Block::DecoderBlock(b) => &mut b.window,
                _ => continue,
            };
            *window = window.map(|w| w.min(most));
        }
    }

    /// Symbols of the parameters' sizes, sorted, each once.
    pub fn symbols(&self) -> Vec<String> {
        let mut out = Vec::new();
        for p in &self.params {
            p.ty.symbols(&mut out);
        }
        order::sort(&mut out);
        out.dedup();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Map, Unary};
    use crate::types::{DType, Shape};

    #[test]
    fn labels_made_inside_a_name_begin_with_it() {
        let mut m = Module::graph("f");
        let x = m.input("x", Type::tensor(DType::F32, Shape::of(&[4])));
        let y = m.named("layer0", |m| {
            let y = m.named("ffn", |m| m.op(Map { f: Unary::Silu }, &[x], "act"));
            m.op(Map { f: Unary::Neg }, &[y], "neg")
        });
        m.op(Map { f: Unary::Neg }, &[y], "last");
        let labels: Vec<&str> = m.nodes.iter().map(|n| n.label.as_str()).collect();
        assert_eq!(labels, ["layer0.ffn.act", "layer0.neg", "last"]);
    }

    #[test]
    fn a_module_starts_direct_and_the_policy_defaults_to_fusable() {
        assert_eq!(Module::graph("f").fusion_policy, FusionPolicy::Direct);
        assert_eq!(FusionPolicy::default(), FusionPolicy::Fusable);
        assert_eq!(FusionPolicy::from_name("direct"), Some(FusionPolicy::Direct));
        assert_eq!(FusionPolicy::from_name("fused"), None);
    }
}
