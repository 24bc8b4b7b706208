//! Kernels: one file an operator. A kernel computes one share of a step's results; what it needs
//! is fixed when the program is built.
//!
//! `cells.rs` is a cache as attention reads it, `attention_loops.rs` what it does with it; `attention.rs` has the
//! walk over positions that `attention_split.rs` shares. `weights.rs` is a weight as matmul reads it, `int8/` and
//! `dense.rs` the products of its panels with rows of x; `math.rs` has the scalar functions; `claim.rs` is what
//! their `takes` share; `reference.rs` runs what has no kernel of its own on the oracle's loops (feature
//! `reference`).
//!
//! The feature `graphs` has the kernels that networks other than language models need. `elementwise/` is one
//! engine for all operators of that kind, `picks.rs` one for copies in another order, `product.rs` one for
//! products of tensors; `patches.rs` multiplies patches of images and `slide.rs` runs windows over
//! them; `rows.rs` is what norms and the softmax do with a row, `convert.rs` floats of 16 bits.

#[cfg(feature = "graphs")]
mod argmax;
mod attention;
mod attention_join;
mod attention_loops;
mod attention_split;
#[cfg(feature = "graphs")]
mod batch_matmul;
#[cfg(feature = "graphs")]
mod cast;
mod causal_conv1d;
mod cells;
mod claim;
#[cfg(feature = "graphs")]
mod clamp;
#[cfg(feature = "graphs")]
mod compare;
mod concat;
#[cfg(feature = "graphs")]
mod conv;
#[cfg(feature = "graphs")]
mod conv_transpose;
#[cfg_attr(not(feature = "graphs"), allow(dead_code))]
mod convert;
#[cfg(feature = "graphs")]
mod cumsum;
pub(crate) mod dense;
#[cfg(feature = "graphs")]
mod dot_general;
#[cfg(feature = "graphs")]
pub(crate) mod elementwise;
#[cfg(feature = "graphs")]
mod expand;
mod gated_delta_net;
mod gated_rms_norm;
mod gather;
#[cfg(feature = "graphs")]
mod gather_axis;
#[cfg(feature = "graphs")]
mod gather_elements;
#[cfg(feature = "graphs")]
mod group_norm;
mod grouped_matmul;
pub(crate) mod int8;
#[cfg(feature = "graphs")]
mod interpolate;
mod iota;
mod kv_write;
#[cfg(feature = "graphs")]
mod layer_norm;
mod map;
mod math;
mod matmul;
#[cfg(feature = "graphs")]
mod pad;
#[cfg(feature = "graphs")]
mod patches;
mod picks;
#[cfg(feature = "graphs")]
mod pool;
mod predict;
#[cfg(feature = "graphs")]
pub(crate) mod product;
mod quantize_rows;
#[cfg(feature = "graphs")]
mod random;
mod ranked;
#[cfg(feature = "graphs")]
mod reduce;
#[cfg(feature = "reference")]
mod reference;
#[cfg(feature = "graphs")]
mod region;
#[cfg(feature = "graphs")]
mod residual_norm;
#[cfg(feature = "graphs")]
mod reverse;
mod rms_norm;
#[cfg(feature = "graphs")]
mod roll;
mod rope;
mod route;
#[cfg(feature = "graphs")]
mod rows;
mod sample;
#[cfg(feature = "graphs")]
mod scatter_add;
#[cfg(feature = "graphs")]
mod sdpa;
#[cfg(feature = "graphs")]
mod select;
mod slice;
#[cfg(feature = "graphs")]
mod slide;
#[cfg(feature = "graphs")]
mod softmax;
#[cfg(feature = "graphs")]
mod sort;
#[cfg(feature = "graphs")]
mod state_write;
mod take_rows;
#[cfg(feature = "graphs")]
mod transpose;
mod unmask;
pub(crate) mod weights;
#[cfg(feature = "graphs")]
mod wide;
mod zip;

use crate::place::Split;
use crate::view::Cx;
use core::ops::Range;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ir::mir::Graph;
use rlx_core::ops::{self, Op, Operator, Signature};
use rlx_core::target::{KernelClaim, Path, Target};
use rlx_core::{Code, Error, Result};

/// A step's work.
pub(crate) trait Kernel: Send + Sync {
    /// Computes one share of the step's results.
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

/// One table of the kernels: an operator, what of it the kernel takes, and how a step becomes one. The
/// compiler's claims and the builder read the same rows.
macro_rules! kernels {
    ($($(#[$gate:meta])* $op:ident: $takes:path, $plan:path;)*) => {
        /// What the executor claims.
        pub(crate) const KERNELS: &[KernelClaim] = &[$($(#[$gate])* KernelClaim {
            op: <ops::$op as Operator>::NAME,
            takes: |op, operands, target| match op {
                Op::$op(op) => $takes(op, operands, target),
                other => Err(format!("its kernel is not {}'s", other.name())),
            },
        },)*];

        /// A kernel of this crate's own, which takes the step.
        fn native(step: &Step) -> Result<Planned> {
            match &step.op {
                $($(#[$gate])* Op::$op(op) => $plan(op, step),)*
                other => {
                    Err(Error::internal(format!("the CPU claims {}, which it has not", other.name())))
                }
            }
        }
    };
}

kernels! {
    Gather: gather::takes, gather::plan;
    RmsNorm: rms_norm::takes, rms_norm::plan;
    MatMul: matmul::takes, matmul::plan;
    QuantizeRows: quantize_rows::takes, quantize_rows::plan;
    Route: route::takes, route::plan;
    GroupedMatMul: grouped_matmul::takes, grouped_matmul::plan;
    Rope: rope::takes, rope::plan;
    KvWrite: kv_write::takes, kv_write::plan;
    RopeKvWrite: rope::takes_with_writes, rope::plan_with_writes;
    Attention: attention::takes, attention::plan;
    AttentionSplit: attention_split::takes, attention_split::plan;
    AttentionJoin: attention_join::takes, attention_join::plan;
    Map: map::takes, map::plan;
    Zip: zip::takes, zip::plan;
    TakeRows: take_rows::takes, take_rows::plan;
    Sample: sample::takes, sample::plan;
    Predict: predict::takes, predict::plan;
    Unmask: unmask::takes, unmask::plan;
    CausalConv1d: causal_conv1d::takes, causal_conv1d::plan;
    GatedDeltaNet: gated_delta_net::takes, gated_delta_net::plan;
    DeltaNet: gated_delta_net::takes_layer, gated_delta_net::plan_layer;
    GatedRmsNorm: gated_rms_norm::takes, gated_rms_norm::plan;
    Slice: slice::takes, slice::plan;
    Concat: concat::takes, concat::plan;
    Iota: iota::takes, iota::plan;
    #[cfg(feature = "graphs")] RandomUniform: random::takes, random::plan;
    #[cfg(feature = "graphs")] RandomNormal: random::takes_normal, random::plan_normal;
    #[cfg(feature = "graphs")] Select: select::takes, select::plan;
    #[cfg(feature = "graphs")] Compare: compare::takes, compare::plan;
    #[cfg(feature = "graphs")] Cast: cast::takes, cast::plan;
    #[cfg(feature = "graphs")] Clamp: clamp::takes, clamp::plan;
    #[cfg(feature = "graphs")] Region: region::takes, region::plan;
    #[cfg(feature = "graphs")] LayerNorm: layer_norm::takes, layer_norm::plan;
    #[cfg(feature = "graphs")] ResidualLayerNorm: residual_norm::takes, residual_norm::plan;
    #[cfg(feature = "graphs")] ResidualRmsNorm: residual_norm::takes_rms, residual_norm::plan_rms;
    #[cfg(feature = "graphs")] GroupNorm: group_norm::takes, group_norm::plan;
    #[cfg(feature = "graphs")] Softmax: softmax::takes, softmax::plan;
    #[cfg(feature = "graphs")] Reduce: reduce::takes, reduce::plan;
    #[cfg(feature = "graphs")] ArgMax: argmax::takes, argmax::plan;
    #[cfg(feature = "graphs")] ArgMin: argmax::takes_min, argmax::plan_min;
    #[cfg(feature = "graphs")] Sort: sort::takes, sort::plan;
    #[cfg(feature = "graphs")] TopK: sort::takes_few, sort::plan_few;
    #[cfg(feature = "graphs")] CumSum: cumsum::takes, cumsum::plan;
    #[cfg(feature = "graphs")] ScatterAdd: scatter_add::takes, scatter_add::plan;
    #[cfg(feature = "graphs")] Expand: expand::takes, expand::plan;
    #[cfg(feature = "graphs")]
    BatchMatMul: batch_matmul::takes, batch_matmul::plan;
    #[cfg(feature = "graphs")]
    DotGeneral: dot_general::takes, dot_general::plan;
    #[cfg(feature = "graphs")]
    Sdpa: sdpa::takes, sdpa::plan;
    #[cfg(feature = "graphs")]
    Transpose: transpose::takes, transpose::plan;
    #[cfg(feature = "graphs")]
    Reverse: reverse::takes, reverse::plan;
    #[cfg(feature = "graphs")]
    Roll: roll::takes, roll::plan;
    #[cfg(feature = "graphs")]
    Pad: pad::takes, pad::plan;
    #[cfg(feature = "graphs")]
    GatherElements: gather_elements::takes, gather_elements::plan;
    #[cfg(feature = "graphs")]
    StateWrite: state_write::takes, state_write::plan;
    #[cfg(feature = "graphs")] Conv: conv::takes, conv::plan;
    #[cfg(feature = "graphs")]
    ConvTranspose: conv_transpose::takes, conv_transpose::plan;
    #[cfg(feature = "graphs")] Pool: pool::takes, pool::plan;
    #[cfg(feature = "graphs")]
    Interpolate: interpolate::takes, interpolate::plan;
}

/// Picks the kernel of a step.
///
/// # Errors
/// `Unsupported` for an operator that is no step, or that has no kernel for its element types,
/// shapes or attributes; `Internal` for operands that break the operator's type rule.
pub(crate) fn plan(step: &Step, target: &Target) -> Result<Planned> {
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
    match target.path(&step.op, &types) {
        Ok(Path::Native) => native(step),
        #[cfg(feature = "reference")]
        Ok(Path::Loops) => Ok(reference::plan(step)),
        Ok(_) => {
            unsupported(format!("{} is no step: it is a view, or made at load", step.op.name()))
        }
        Err(why) => unsupported(format!("the CPU does not run {}: {why}", step.op.name())),
    }
}

/// Static sizes of a slice.
fn dims<const N: usize>(slice: &Slice) -> Result<[usize; N]> {
    let dims: Vec<usize> = slice.ty.shape.static_dims()?.iter().map(|&n| n as usize).collect();
    dims.try_into().map_err(|_| Error::internal(format!("{} has not {N} axes", slice.ty)))
}

/// Static sizes of a slice, however many.
fn sizes(slice: &Slice) -> Result<Vec<usize>> {
    Ok(slice.ty.shape.static_dims()?.iter().map(|&n| n as usize).collect())
}

/// How many rows a slice has, and how long they are: all axes but the last, and that.
fn rows_of(slice: &Slice) -> Result<(usize, usize)> {
    let dims = sizes(slice)?;
    let (last, ahead) = dims
        .split_last()
        .ok_or_else(|| Error::internal(format!("{} has no last axis", slice.ty)))?;
    Ok((ahead.iter().product(), *last))
}

/// Shares of what is computed element by element: rows if there are many, for columns would be short pieces of each.
fn by_elements(rows: usize) -> Split {
    if !cfg!(feature = "graphs") || rows < 64 { Split::Columns(64) } else { Split::Runs(rows) }
}

/// Elements before an axis, along it, and behind each of its indices.
fn around(slice: &Slice, axis: usize) -> Result<[usize; 3]> {
    let dims = sizes(slice)?;
    let Some(&n) = dims.get(axis) else {
        return Err(Error::internal(format!("{} has no axis {axis}", slice.ty)));
    };
    Ok([dims[..axis].iter().product(), n, dims[axis + 1..].iter().product()])
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
