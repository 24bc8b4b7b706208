//! Kernels: one file an operator. A kernel computes one part of a step's results; what it needs
//! is fixed when the program is built.
//!
//! `cells.rs` is a cache as attention reads it, `attention_loops.rs` what it does with it; `attention.rs` has the
//! walk over positions that `attention_split.rs` shares. `weights.rs`
//! is a weight as matmul reads it, `int8.rs` and `dense.rs` the products of its panels with rows of x;
//! `math.rs` has the scalar functions; `reference.rs` runs what has no kernel of its own on the oracle's
//! loops (feature `reference`).

mod attention;
mod attention_join;
mod attention_loops;
mod attention_split;
mod cells;
mod dense;
mod gather;
pub(crate) mod int8;
mod kv_write;
mod map;
mod math;
mod matmul;
mod quantize_rows;
#[cfg(feature = "reference")]
mod reference;
mod rms_norm;
mod rope;
mod sample;
mod take_rows;
pub(crate) mod weights;
mod zip;

use crate::program::Split;
use crate::run::Cx;
use core::ops::Range;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ir::mir::Graph;
use rlx_core::ops::{Op, Signature};
use rlx_core::target::{Path, Target};
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};

/// A step's work.
pub(crate) trait Kernel: Send + Sync {
    /// Computes one part: the panels of `cx`'s results.
    fn run(&self, cx: &mut Cx<'_>);
}

/// A kernel with what the program's builder needs to know about it.
pub(crate) struct Planned {
    pub(crate) kernel: Box<dyn Kernel>,
    /// How each result is cut.
    pub(crate) splits: Vec<Split>,
    /// Multiply-adds of the whole step, roughly.
    pub(crate) work: u64,
    /// Operands whose rows may stand in panels.
    pub(crate) panels: Range<usize>,
}

impl Planned {
    fn new(kernel: impl Kernel + 'static, splits: &[Split], work: usize) -> Planned {
        let (kernel, splits) = (Box::new(kernel), splits.to_vec());
        Planned { kernel, splits, work: work as u64, panels: 0..0 }
    }

    fn reads_panels(self, panels: Range<usize>) -> Planned {
        Planned { panels, ..self }
    }
}

/// What the executor runs: its kernels, and the oracle's loops for everything else where they are
/// linked.
pub(crate) fn target() -> Target {
    let target = Target::cpu();
    if cfg!(feature = "reference") { target.with_loops() } else { target }
}

/// Picks the kernel of a step.
///
/// # Errors
/// `Unsupported` for an operator that is no step, or that has no kernel for its element types,
/// shapes or attributes; `Internal` for operands that break the operator's type rule.
pub(crate) fn plan(step: &Step) -> Result<Planned> {
    let types: Vec<_> = step.operands.iter().map(|s| &s.ty).collect();
    let bodies: Vec<Signature> = step.regions.iter().map(Graph::signature).collect();
    let results = step.op.infer_regions(&types, &bodies)?;
    if !results.iter().eq(step.results.iter().map(|r| &r.ty)) {
        return Err(Error::internal("results have other types than the operator's rule gives"));
    }
    let unsupported = |what: String| Err(Error::new(Code::Unsupported, what));
    if step.part.is_some() {
        return unsupported(format!("the CPU runs no {} of a part of its weights", step.op.name()));
    }
    match target().path(&step.op, &types) {
        Ok(Path::Native) => native(step),
        #[cfg(feature = "reference")]
        Ok(Path::Loops) => Ok(reference::plan(step)),
        Ok(_) => {
            unsupported(format!("{} is no step: it is a view, or made at load", step.op.name()))
        }
        Err(why) => unsupported(format!("the CPU does not run {}: {why}", step.op.name())),
    }
}

/// A kernel of this crate's own.
fn native(step: &Step) -> Result<Planned> {
    match &step.op {
        Op::Gather(op) => gather::plan(op, step),
        Op::RmsNorm(op) => rms_norm::plan(op, step),
        Op::MatMul(op) => matmul::plan(op, step),
        Op::QuantizeRows(op) => quantize_rows::plan(op, step),
        Op::Rope(op) => rope::plan(op, step),
        Op::KvWrite(_) => kv_write::plan(step),
        Op::RopeKvWrite(op) => rope::plan_with_writes(op, step),
        Op::Attention(op) => attention::plan(op, step),
        Op::AttentionSplit(op) => attention_split::plan(op, step),
        Op::AttentionJoin(op) => attention_join::plan(op, step),
        Op::Map(op) => map::plan(op, step),
        Op::Zip(op) => zip::plan(op, step),
        Op::TakeRows(_) => take_rows::plan(step),
        Op::Sample(_) => sample::plan(step),
        other => Err(Error::internal(format!("the CPU claims {}, which it has not", other.name()))),
    }
}

/// Fails unless all operands and results are f32.
fn floats(name: &str, step: &Step) -> Result<()> {
    match step.operands.iter().chain(&step.results).find(|s| s.ty.dtype != DType::F32) {
        None => Ok(()),
        Some(s) => Err(Error::new(
            Code::Unsupported,
            format!("the CPU's {name} computes in f32, not {}", s.ty),
        )),
    }
}

/// Static sizes of a slice.
fn dims<const N: usize>(slice: &Slice) -> Result<[usize; N]> {
    let dims: Vec<usize> = slice.ty.shape.static_dims()?.iter().map(|&n| n as usize).collect();
    dims.try_into().map_err(|_| Error::internal(format!("{} has not {N} axes", slice.ty)))
}

/// Past position, real rows and whether the control block is done.
struct Control {
    past: usize,
    len: usize,
    done: bool,
}

/// Reads the control block.
fn control(words: &[u32]) -> Control {
    use rlx_core::sample::control as c;
    let word = |i: usize| words.get(i).copied().unwrap_or(0);
    Control {
        past: word(c::PAST) as usize,
        len: word(c::LEN) as usize,
        done: word(c::DONE) != c::RUNNING,
    }
}
