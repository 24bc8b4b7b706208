//! HIR to MIR: one file per block family. Under the policy `Fusable` blocks become primitives,
//! which passes fuse again; under `Direct` the fused operator at once.

mod attention;
mod caches;
mod conv;
mod decoder;
#[cfg(feature = "vision")]
mod dit;
#[cfg(feature = "encoders")]
mod encoder;
#[cfg(feature = "encoders")]
mod encoder_rope;
mod error;
mod ffn;
mod inputs;
mod linear;
mod module;
mod moe;
mod movement;
mod norm;
mod recurrent;
mod sampling;
#[cfg(any(feature = "encoders", feature = "vision"))]
mod sdpa;
mod spec;
#[cfg(feature = "vision")]
mod window;

use crate::error::{Error, Result};
use crate::ir::hir::{self, Block, BlockNode, Caches, FusionPolicy, Module, Tensor};
use crate::ir::lir::StateDecl;
use crate::ir::mir::{Graph, ParamKind, ValueId};
use crate::ops::{CONTROL_WORDS, CanvasIds, Gather, RopeTable, TakeRows, Token};
use crate::types::{Binding, DType, Dim, OUT_ROWS, SEQ, Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use inputs::Inputs;

pub use caches::{check_caches, check_target};
pub use error::LowerError;
pub use sampling::{CANVAS, COUNTS, CTL, PARAMS};
pub use spec::ProgramSpec;

/// The output of a language model's head, `[rows, vocab]`, and its entry in a session.
pub const LOGITS: &str = "logits";

/// What a block becomes.
trait Lower {
    /// Results, as many as the block's row says.
    fn lower(&self, cx: &mut Lowering<'_>, inputs: Inputs, label: &str) -> Result<Vec<ValueId>>;
}

/// The graph under construction.
struct Lowering<'a> {
    g: Graph,
    /// The program to make; `None` leaves symbols unbound.
    spec: Option<&'a ProgramSpec>,
    /// Whether every row reaches the head, whatever `OUT_ROWS` is.
    all_rows: bool,
    module: &'a Module,
    kept: Caches,
    /// Whether blocks become fused operators.
    direct: bool,
    /// Value of each parameter that was read.
    params: Vec<Option<ValueId>>,
    /// Value of each result so far; `None` for what an inner chunk never computes.
    results: Vec<Option<ValueId>>,
    /// The control block, once something reads it.
    ctl: Option<ValueId>,
    /// Angles, divisors and the table of both.
    rope_tables: Vec<(RopeTable, Option<ValueId>, ValueId)>,
    /// Of layers with attention, the caches of keys and values as they are once the step's rows are in them.
    caches: Vec<(usize, (ValueId, ValueId))>,
}

impl<'a> Lowering<'a> {
    fn new(module: &'a Module, spec: Option<&'a ProgramSpec>, kept: Caches) -> Result<Self> {
        check_caches(module, kept)?;
        let name = spec.map_or(&module.name, |s| &s.name);
        let mut cx = Lowering {
            g: Graph::new(name),
            spec,
            all_rows: spec.is_some_and(|s| s.out_rows == s.seq),
            module,
            kept,
            direct: module.fusion_policy == FusionPolicy::Direct,
            params: vec![None; module.params.len()],
            results: Vec::with_capacity(module.results() as usize),
            ctl: None,
            rope_tables: Vec::new(),
            caches: Vec::new(),
        };
        if module.nodes.iter().any(|n| n.block.reads_control()) {
            cx.control()?;
        }
        // Inputs are the host's: all of them, in the order the author gave.
        for (i, p) in module.params.iter().enumerate() {
            if p.kind == ParamKind::Input {
                cx.param(i)?;
            }
        }
        Ok(cx)
    }

    /// Sizes of the program's symbols; none where a module is lowered as it is.
    fn binding(&self) -> Binding {
        self.spec.map(ProgramSpec::binding).unwrap_or_default()
    }

    /// The control block, a state of every program of a language model.
    fn control(&mut self) -> Result<ValueId> {
        let ctl = match self.ctl {
            Some(v) => v,
            None => sampling::control(&mut self.g)?,
        };
        self.ctl = Some(ctl);
        Ok(ctl)
    }

    /// The parameter of the module at `i`, added on first use.
    fn param(&mut self, i: usize) -> Result<ValueId> {
        if let Some(&Some(v)) = self.params.get(i) {
            return Ok(v);
        }
        let p =
            self.module.params.get(i).ok_or_else(|| {
                Error::bad_graph(format!("parameter {i} is not among the module's"))
            })?;
        let ty = p.ty.bind(&self.binding()).map_err(|e| e.at(format!("%{}", p.name)))?;
        let v = self.g.param_once(p.kind, &p.name, ty)?;
        self.params[i] = Some(v);
        Ok(v)
    }

    /// A tensor's value; `None` for what an inner chunk never computes.
    fn get(&mut self, t: Tensor) -> Result<Option<ValueId>> {
        match t {
            Tensor::Param(i) => self.param(i as usize).map(Some),
            Tensor::Result(i) => self
                .results
                .get(i as usize)
                .copied()
                .ok_or_else(|| Error::bad_graph(format!("input %{i} is not built yet"))),
        }
    }

    /// Lowers one block.
    fn node(&mut self, node: &BlockNode) -> Result<()> {
        if let Some(e) = LowerError::of(&node.block, node.inputs.len()) {
            return Err(e.into());
        }
        // An inner chunk has no head: whatever hangs on its rows is not built, nor are the weights
        // that only it reads.
        let missing = |t: &Tensor| match t {
            Tensor::Result(i) => self.results.get(*i as usize) == Some(&None),
            Tensor::Param(_) => false,
        };
        let no_rows =
            matches!(node.block, Block::OutRows(_)) && self.spec.is_some_and(|s| s.out_rows == 0);
        if no_rows || node.inputs.iter().any(missing) {
            self.results.extend(node.outputs.iter().map(|_| None));
            return Ok(());
        }
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for &t in &node.inputs {
            inputs.extend(self.get(t)?);
        }
        let values = self.block(&node.block, inputs, &node.label)?;
        if values.len() != node.outputs.len() {
            return Err(Error::bad_graph(format!(
                "{} gives {} results, the module names {}",
                node.block.name(),
                values.len(),
                node.outputs.len()
            )));
        }
        self.results.extend(values.into_iter().map(Some));
        Ok(())
    }

    fn block(&mut self, block: &Block, inputs: Vec<ValueId>, label: &str) -> Result<Vec<ValueId>> {
        if let Block::Op(op, regions) = block {
            // What it reads has the program's sizes already.
            let (mut op, binding) = (op.clone(), self.binding());
            op.bind(&binding)?;
            let bodies = regions.iter().map(|body| body.specialize(&body.name, &binding));
            return self.g.push_regions(op, &inputs, bodies.collect::<Result<_>>()?, label);
        }
        let i = Inputs::new(inputs);
        match block {
            Block::Op(..) => Err(Error::internal("an operator is no block")),
            Block::Ids(b) => b.lower(self, i, label),
            Block::Embedding(b) => b.lower(self, i, label),
            Block::OutRows(b) => b.lower(self, i, label),
            Block::LmHead(b) => b.lower(self, i, label),
            Block::Add(b) => b.lower(self, i, label),
            Block::RmsNorm(b) => b.lower(self, i, label),
            Block::ResidualRmsNorm(b) => b.lower(self, i, label),
            Block::Linear(b) => b.lower(self, i, label),
            Block::LinearFused(b) => b.lower(self, i, label),
            Block::SharedLinearPair(b) => b.lower(self, i, label),
            Block::SwigluFfn(b) => b.lower(self, i, label),
            Block::GegluFfn(b) => b.lower(self, i, label),
            Block::Mlp(b) => b.lower(self, i, label),
            Block::Rope(b) => b.lower(self, i, label),
            Block::Attention(b) => b.lower(self, i, label),
            #[cfg(feature = "encoders")]
            Block::EncoderAttention(b) => b.lower(self, i, label),
            #[cfg(feature = "encoders")]
            Block::EncoderRope(b) => b.lower(self, i, label),
            #[cfg(feature = "encoders")]
            Block::CrossAttention(b) => b.lower(self, i, label),
            Block::GatedDeltaNet(b) => b.lower(self, i, label),
            Block::DeltaNet(b) => b.lower(self, i, label),
            Block::CausalConv1d(b) => b.lower(self, i, label),
            Block::DecoderBlock(b) => b.lower(self, i, label),
            Block::LayerNorm(b) => b.lower(self, i, label),
            Block::ResidualLayerNorm(b) => b.lower(self, i, label),
            Block::MoeFfn(b) => b.lower(self, i, label),
            #[cfg(feature = "vision")]
            Block::WindowAttention(b) => b.lower(self, i, label),
            #[cfg(feature = "vision")]
            Block::DitBlock(b) => b.lower(self, i, label),
            Block::DepthwiseConv1dCausal(b) => b.lower(self, i, label),
            #[cfg(feature = "vision")]
            Block::Conv(b) => b.lower(self, i, label),
            #[cfg(feature = "vision")]
            Block::PatchEmbed(b) => b.lower(self, i, label),
        }
    }

    /// Every block, then the module's own outputs.
    fn blocks(&mut self) -> Result<()> {
        for node in &self.module.nodes {
            self.node(node).map_err(|e| place(e, &node.label))?;
        }
        for (name, t) in &self.module.outputs {
            if let Some(v) = self.get(*t).map_err(|e| place(e, name))? {
                self.g.output(name, v);
            }
        }
        Ok(())
    }

    /// Logits of the head, where the program has one.
    fn logits(&self) -> Option<ValueId> {
        let head = self.module.nodes.iter().rev().find(|n| matches!(n.block, Block::LmHead(_)))?;
        match head.outputs.first()? {
            Tensor::Result(i) => *self.results.get(*i as usize)?,
            Tensor::Param(_) => None,
        }
    }
}

/// An error of a block says which, unless it says more.
fn place(e: Error, label: &str) -> Error {
    if e.at.is_empty() { e.at(label) } else { e }
}

/// Lowers a module to one program's graph, symbols bound.
///
/// # Errors
/// As [`check_caches`]; `BadGraph` with the label of the block whose shapes do not fit.
pub fn lower(module: &Module, spec: &ProgramSpec, caches: impl Into<Caches>) -> Result<Graph> {
    let mut cx = Lowering::new(module, Some(spec), caches.into())?;
    cx.blocks()?;
    if let Some(logits) = cx.logits() {
        if spec.sample {
            sampling::sample(&mut cx, logits)?;
        }
        if spec.denoise {
            sampling::denoise(&mut cx, logits, spec.seq)?;
        }
        if spec.logits {
            cx.g.output(LOGITS, logits);
        }
    }
    if spec.taps {
        for (name, t) in &module.taps {
            if let Some(v) = cx.get(*t).map_err(|e| place(e, name))? {
                cx.g.output(name, v);
            }
        }
    }
    cx.g.specialize(&spec.name, &spec.binding())
}

/// Lowers a module as it is: symbols stay, outputs are the module's own and, of a language model,
/// `logits`. Token ids are input `ids`.
///
/// # Errors
/// As [`lower`].
pub fn lower_module(module: &Module, kv: DType) -> Result<Graph> {
    unbound(Lowering::new(module, None, kv.into())?)
}

/// [`lower_module`] where every row reaches the head: `OUT_ROWS` is `SEQ`, which a session reads off its inputs.
///
/// # Errors
/// As [`lower`].
pub fn lower_all_rows(module: &Module, kv: DType) -> Result<Graph> {
    unbound(Lowering { all_rows: true, ..Lowering::new(module, None, kv.into())? })
}

fn unbound(mut cx: Lowering<'_>) -> Result<Graph> {
    cx.blocks()?;
    if let Some(logits) = cx.logits() {
        cx.g.output(LOGITS, logits);
    }
    Ok(cx.g)
}

impl Lower for hir::Ids {
    fn lower(&self, cx: &mut Lowering<'_>, _: Inputs, label: &str) -> Result<Vec<ValueId>> {
        if let Some(spec) = cx.spec.filter(|s| s.denoise) {
            let canvas = sampling::canvas(cx, spec.seq)?;
            return cx.g.push(CanvasIds, &[canvas], label);
        }
        if cx.spec.is_some_and(|s| s.seq == 1) {
            let ctl = cx.control()?;
            return cx.g.push(Token, &[ctl], label);
        }
        let rows = Dim::symbol(SEQ).bind(&cx.binding())?;
        let ty = Type::tensor(DType::U32, Shape(Vec::from([rows])));
        Ok(vec![cx.g.param_once(ParamKind::Input, "ids", ty)?])
    }
}

impl Lower for hir::Embedding {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (ids, table) = (i.one()?, i.one()?);
        cx.g.push(Gather::default(), &[table, ids], label)
    }
}

impl Lower for hir::OutRows {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let x = i.one()?;
        // A step of one row, or one that returns every row.
        if cx.all_rows {
            return Ok(vec![x]);
        }
        let ctl = cx.control()?;
        let rows = Dim::symbol(OUT_ROWS).bind(&cx.binding())?;
        cx.g.push(TakeRows { rows }, &[x, ctl], label)
    }
}

/// Every state of a model's programs, in the order all of them use: control block, sampling
/// parameters, counts, the canvas, then caches and the author's own states in the order of the blocks.
///
/// # Errors
/// As [`check_caches`]; `BadGraph` if sizes overflow.
pub fn states(module: &Module, caches: impl Into<Caches>) -> Result<Vec<StateDecl>> {
    let caches = caches.into();
    check_caches(module, caches)?;
    let words = |n: u64| Type::state(DType::U32, Shape::of(&[n]));
    let mut out = Vec::new();
    let mut add = |name: String, ty: Type| -> Result<()> {
        let bytes = ty.bytes()?;
        out.push(StateDecl { name, ty, bytes });
        Ok(())
    };
    if module.nodes.iter().any(|n| n.block.reads_control()) {
        add(CTL.into(), words(CONTROL_WORDS))?;
    }
    if module.is_language_model() {
        add(PARAMS.into(), sampling::params_type(module))?;
        add(COUNTS.into(), words(module.vocab))?;
    }
    if let Some(block) = module.block() {
        add(CANVAS.into(), sampling::canvas_type(block))?;
    }
    for node in &module.nodes {
        for (name, ty) in node.block.states(module.context, caches) {
            add(name, ty)?;
        }
    }
    for p in module.params.iter().filter(|p| p.kind == ParamKind::State) {
        add(p.name.clone(), p.ty.clone())?;
    }
    Ok(out)
}
