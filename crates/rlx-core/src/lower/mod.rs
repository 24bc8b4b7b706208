//! HIR to MIR: one file per block family. Blocks become primitives; passes fuse them again.

mod attention;
mod ffn;
mod linear;
mod sampling;

use crate::error::{Error, Result};
use crate::ir::hir::{Block, LinearWeights, Module, Tensor, Weight};
use crate::ir::lir::StateDecl;
use crate::ir::mir::{Graph, ParamKind, ValueId};
use crate::ops::{Binary, CONTROL_WORDS, Gather, PARAMS_WORDS, RmsNorm, TakeRows, Token, Zip};
use crate::types::{Binding, DType, Dim, OUT_ROWS, SEQ, Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use sampling::{COUNTS, CTL, PARAMS};

/// Which of a model's programs to make.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramSpec {
    /// `decode`, `prefill`, `prefill_last`, `verify`.
    pub name: String,
    /// Rows of a step, `SEQ`. With 1 the id comes from the control block, else from input `ids`.
    pub seq: u64,
    /// Rows that reach the head, `OUT_ROWS`; 0 for inner chunks.
    pub out_rows: u64,
    /// Sample from the one row of logits, advance the control block, return `token`.
    pub sample: bool,
    /// Return `logits`.
    pub logits: bool,
    /// Return every tap.
    pub taps: bool,
}

impl ProgramSpec {
    /// One token for every position.
    pub fn decode() -> Self {
        Self {
            name: "decode".into(),
            seq: 1,
            out_rows: 1,
            sample: true,
            logits: false,
            taps: false,
        }
    }

    /// An inner chunk of a prompt: fills caches, nothing else.
    pub fn prefill(chunk: u64) -> Self {
        Self { name: "prefill".into(), seq: chunk, out_rows: 0, sample: false, ..Self::decode() }
    }

    /// The last chunk of a prompt: its last row is sampled.
    pub fn prefill_last(chunk: u64) -> Self {
        Self { name: "prefill_last".into(), seq: chunk, ..Self::decode() }
    }

    /// Every row's logits, and the taps if asked.
    pub fn verify(chunk: u64, taps: bool) -> Self {
        Self {
            name: "verify".into(),
            seq: chunk,
            out_rows: chunk,
            sample: false,
            logits: true,
            taps,
        }
    }

    /// The same program with `logits` returned.
    #[must_use]
    pub fn with_logits(mut self) -> Self {
        self.logits = true;
        self.name.push_str("_logits");
        self
    }

    fn binding(&self) -> Binding {
        Binding::from([(SEQ.into(), self.seq), (OUT_ROWS.into(), self.out_rows)])
    }
}

/// The graph under construction.
struct Lowering<'a> {
    g: Graph,
    spec: &'a ProgramSpec,
    module: &'a Module,
    kv: DType,
    /// Value of each lowered tensor; `None` for what an inner chunk never computes.
    values: Vec<Option<ValueId>>,
    ctl: ValueId,
}

impl Lowering<'_> {
    fn weight(&mut self, w: &Weight) -> Result<ValueId> {
        self.g.param_once(ParamKind::Weight, &w.name, w.ty.clone())
    }

    fn get(&self, t: Tensor, label: &str) -> Result<Option<ValueId>> {
        self.values
            .get(t.0 as usize)
            .copied()
            .ok_or_else(|| Error::bad_graph(format!("input %{} is not built yet", t.0)).at(label))
    }
}

/// Lowers a module to one program's graph, symbols bound.
///
/// # Errors
/// `BadGraph` with the label of the block whose shapes do not fit.
pub fn lower(module: &Module, spec: &ProgramSpec, kv: DType) -> Result<Graph> {
    let mut g = Graph::new(&spec.name);
    let ctl = sampling::control(&mut g)?;
    let mut cx = Lowering { g, spec, module, kv, values: Vec::new(), ctl };
    for node in &module.nodes {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for &t in &node.inputs {
            inputs.push(cx.get(t, &node.label)?);
        }
        // An inner chunk has no head: whatever hangs on its rows is not built.
        let inputs: Option<Vec<ValueId>> = inputs.into_iter().collect();
        let value = match inputs {
            Some(inputs) => block(&mut cx, &node.block, &inputs, &node.label)
                .map_err(|e| if e.at.is_empty() { e.at(node.label.clone()) } else { e })?,
            None => None,
        };
        cx.values.push(value);
    }
    if let Some(&Some(logits)) = cx.values.last() {
        if spec.sample {
            sampling::sample(&mut cx, logits)?;
        }
        if spec.logits {
            cx.g.output("logits", logits);
        }
    }
    if spec.taps {
        for (name, t) in &module.taps {
            if let Some(v) = cx.get(*t, name)? {
                cx.g.output(name, v);
            }
        }
    }
    cx.g.specialize(&spec.name, &spec.binding())
}

fn block(
    cx: &mut Lowering<'_>,
    block: &Block,
    inputs: &[ValueId],
    label: &str,
) -> Result<Option<ValueId>> {
    let one = |n: usize| {
        inputs
            .get(n)
            .copied()
            .ok_or_else(|| Error::bad_graph(format!("{} lacks input {n}", block.name())).at(label))
    };
    let value = match block {
        Block::Ids if cx.spec.seq == 1 => {
            let ctl = cx.ctl;
            cx.g.push1(Token, &[ctl], label)?
        }
        Block::Ids => {
            let ty = Type::tensor(DType::U32, Shape(Vec::from([Dim::symbol(SEQ)])));
            cx.g.param_once(ParamKind::Input, "ids", ty)?
        }
        Block::Embedding(table) => {
            let table = cx.weight(table)?;
            cx.g.push1(Gather::default(), &[table, one(0)?], label)?
        }
        Block::RmsNorm { weight, eps } => {
            let w = cx.weight(weight)?;
            cx.g.push1(RmsNorm { eps: *eps }, &[one(0)?, w], label)?
        }
        Block::Linear(w) | Block::LmHead(w) => linear::linear(cx, one(0)?, w, label)?,
        Block::Attention(spec) => {
            attention::attention(cx, [one(0)?, one(1)?, one(2)?], spec, label)?
        }
        Block::SwigluFfn(w) => ffn::swiglu(cx, one(0)?, w, label)?,
        Block::Add => cx.g.push1(Zip { f: Binary::Add }, &[one(0)?, one(1)?], label)?,
        Block::OutRows => {
            if cx.spec.out_rows == 0 {
                return Ok(None);
            }
            // All rows of a one-row step, or of a step that returns every row.
            if cx.spec.out_rows == cx.spec.seq {
                return Ok(Some(one(0)?));
            }
            let ctl = cx.ctl;
            cx.g.push1(TakeRows { rows: Dim::symbol(OUT_ROWS) }, &[one(0)?, ctl], label)?
        }
    };
    Ok(Some(value))
}

/// A linear layer's `(weight, bias)`, shared by block families.
fn linear_params(cx: &mut Lowering<'_>, w: &LinearWeights) -> Result<(ValueId, Option<ValueId>)> {
    let weight = cx.weight(&w.weight)?;
    let bias = w.bias.as_ref().map(|b| cx.weight(b)).transpose()?;
    Ok((weight, bias))
}

/// Every state of a model's programs, in the order all of them use: control block, sampling
/// parameters, counts, then the caches by layer.
///
/// # Errors
/// `BadGraph` if sizes overflow.
pub fn states(module: &Module, kv: DType) -> Result<Vec<StateDecl>> {
    let words = |n: u64| Type::state(DType::U32, Shape::of(&[n]));
    let mut out = Vec::new();
    let mut add = |name: String, ty: Type| -> Result<()> {
        let bytes = ty.bytes()?;
        out.push(StateDecl { name, ty, bytes });
        Ok(())
    };
    add(CTL.into(), words(CONTROL_WORDS))?;
    add(PARAMS.into(), words(PARAMS_WORDS))?;
    add(COUNTS.into(), words(module.vocab))?;
    for node in &module.nodes {
        if let Block::Attention(a) = &node.block {
            let dims = [a.kv_heads as u64, module.context, a.head_dim as u64];
            for part in ["k", "v"] {
                add(format!("blk.{}.{part}", a.layer), Type::state(kv, Shape::of(&dims)))?;
            }
        }
    }
    Ok(out)
}
