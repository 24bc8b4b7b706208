//! From a step of a program to WGSL, step constants, bindings and a launch.
//!
//! Every buffer is bound whole as `array<u32>`, once; offsets are step constants, so that two
//! steps of one shape share a pipeline. A kernel's text depends on the operator, the types it
//! reads and which of its operands share a buffer.

mod attention;
mod attention_join;
mod attention_split;
mod attention_tile;
#[cfg(not(target_arch = "wasm32"))]
pub mod catalog;
mod causal_conv1d;
mod codebooks;
mod delta_chunks;
mod elementwise;
mod elementwise_region;
// A build for chat has movements alone.
#[cfg_attr(not(feature = "graphs"), allow(dead_code))]
mod elements;
mod emit;
mod formats;
mod gated_delta_net;
mod gather;
#[cfg(feature = "graphs")]
mod graphs;
mod kv;
mod matmul;
pub mod planes;
mod predict;
mod quantize_rows;
mod rms_norm;
mod rope;
mod route;
pub mod sample;
pub mod scalar;
mod take_rows;
mod takes;
mod unmask;
mod weighted_sum;

pub use codebooks::Book;
pub use emit::BindingResource;

use crate::gpu::{Form, Wgsl};
use crate::tuning::Tuning;
use emit::Emit;
pub(crate) use emit::fill;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Alias, Op};
use rlx_core::plan::WeightPlan;
use rlx_core::target::{KernelClaim, Takes, Target};
use rlx_core::types::Type;
use rlx_core::{Code, Error, Result};
use std::sync::LazyLock;
use takes::Taken;

/// How a kernel uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// It only reads it.
    Read,
    /// It may write it.
    ReadWrite,
}

/// Bytes of a step's constants: the alignment that WebGPU asks of uniform offsets.
pub const STEP_BYTES: u64 = 256;

/// Workgroups along one axis of a launch, WebGPU's default limit.
const GROUPS_PER_AXIS: u64 = 65_535;

/// A launch, ready to become a pipeline and a bind group.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The shader. Binding 0 is the step constants.
    pub wgsl: String,
    /// Its entry point.
    pub entry: &'static str,
    /// What binding 1 and the following show, whole.
    pub memory: Vec<(BindingResource, Access)>,
    /// Step constants, at most 64 words.
    pub words: Vec<u32>,
    /// Workgroups, each axis at most 65,535.
    pub groups: [u32; 3],
    /// What it computes, where hosts may have a text of their own for it.
    pub form: Option<Form>,
}

/// A prompt's tokens, of which a submission may have fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsControl {
    /// The control block's state.
    pub state: u32,
    /// Tokens that the program has room for.
    pub rows: u64,
}

/// What kernels depend on besides their step.
pub struct Context<'a> {
    /// Where weights are.
    pub plan: &'a WeightPlan,
    /// For steps whose rows past the control block's `len` nobody reads.
    pub rows_control: Option<RowsControl>,
    /// What the device's WGSL has.
    pub wgsl: Wgsl,
    /// How kernels are shaped.
    pub tuning: Tuning,
}

impl Context<'_> {
    /// The control block's array, if it counts the rows of a step that has `rows` of them: one for each token.
    fn counted(&self, rows: u64, emit: &mut Emit<'_>) -> Option<String> {
        let control = self.rows_control.filter(|c| c.rows == rows)?;
        Some(emit.state(control.state))
    }

    /// A variable, and a statement that returns from workgroups whose `row`, the same for all
    /// their threads, nobody reads. Empty where no rows are counted.
    fn skip_rows(&self, rows: u64, row: &str, emit: &mut Emit<'_>) -> (&'static str, String) {
        let Some(ctl) = self.counted(rows, emit) else { return ("", String::new()) };
        // The barriers behind it need a condition that is the same for the whole workgroup.
        let text = format!(
            "if thread == 0u {{ rows_len = {ctl}[1]; }}\n    \
             if {row} >= workgroupUniformLoad(&rows_len) {{ return; }}"
        );
        ("var<workgroup> rows_len: u32;\n", text)
    }
}

/// What makes a launch of a step; `None` where the step has nothing to do.
type Build = fn(&Step, &Context<'_>, &mut Emit<'_>) -> Result<Option<Launch>>;

/// A kernel: the operator it runs, which forms of it, and what builds it.
struct Row {
    op: &'static str,
    takes: Takes,
    build: Build,
}

const fn row(op: &'static str, takes: Takes, build: Build) -> Row {
    Row { op, takes, build }
}

/// Every kernel. Passes and the planner see operators and `takes` of it, as [`KERNELS`].
const ROWS: &[Row] = &[
    row("gather", gather::takes, gather::gather),
    row("rms_norm", rms_norm::takes, rms_norm::rms_norm),
    row("rms_norm_add", rms_norm::takes, rms_norm::rms_norm),
    row("gated_rms_norm", rms_norm::takes_gated, rms_norm::rms_norm),
    row("causal_conv1d", causal_conv1d::takes, causal_conv1d::causal_conv1d),
    row("gated_delta_net", gated_delta_net::takes, gated_delta_net::gated_delta_net),
    row("delta_net", gated_delta_net::takes_layer, gated_delta_net::delta_net),
    row("matmul", matmul::takes, matmul::matmul),
    row("grouped_matmul", matmul::experts::takes, matmul::experts::grouped_matmul),
    row("route", route::takes, route::route),
    row("weighted_sum", weighted_sum::takes, weighted_sum::weighted_sum),
    row("quantize_rows", quantize_rows::takes, quantize_rows::quantize_rows),
    row("rope", rope::takes, rope::rope),
    row("kv_write", rope::takes_kv_write, rope::kv_write),
    row("rope_kv_write", rope::takes, rope::rope_kv_write),
    row("attention", attention::takes, attention::attention),
    row("attention_split", attention_split::takes, attention_split::split),
    row("rope_attention_split", attention_split::takes_rope, attention_split::rope_split),
    row("attention_join", attention_join::takes, attention_join::join),
    row("map", elementwise::takes_map, elementwise::unary),
    row("zip", elementwise::takes_zip, elementwise::binary),
    row("elementwise_region", elementwise_region::takes, elementwise_region::region),
    row("take_rows", take_rows::takes, take_rows::take_rows),
    row("sample", sample::takes, sample::sample),
    row("predict", predict::takes, predict::predict),
    row("unmask", unmask::takes, unmask::unmask),
    row("slice", elements::slice::takes, elements::slice::slice),
    row("concat", elements::concat::takes, elements::concat::concat),
    row("iota", elements::iota::takes, elements::iota::iota),
];

/// A build for chat alone has no others.
#[cfg(not(feature = "graphs"))]
mod graphs {
    use super::Row;

    pub(super) const ROWS: &[Row] = &[];
    pub(super) const ALSO: &[Row] = &[];
}

/// What the executor's kernels take.
pub(crate) const KERNELS: &[KernelClaim] = &{
    let first = KernelClaim { op: ROWS[0].op, takes: ROWS[0].takes };
    let mut all = [first; ROWS.len() + graphs::ROWS.len()];
    let mut i = 0;
    while i < all.len() {
        let row = if i < ROWS.len() { &ROWS[i] } else { &graphs::ROWS[i - ROWS.len()] };
        all[i] = KernelClaim { op: row.op, takes: row.takes };
        i += 1;
    }
    all
};

/// Whether the kernels of graphs take what a decoder's kernel of the same operator refuses; `why` it does.
fn takes_also(op: &Op, operands: &[&Type], target: &Target, why: String) -> Taken {
    match graphs::ALSO.iter().find(|row| row.op == op.name()) {
        Some(row) => (row.takes)(op, operands, target),
        None => Err(why),
    }
}

/// Builds such a step.
fn build_also(step: &Step, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    match graphs::ALSO.iter().find(|row| row.op == step.op.name()) {
        Some(row) => (row.build)(step, cx, emit),
        None => Err(mismatch(step)),
    }
}

/// Types of a step's operands.
fn types(step: &Step) -> Vec<&Type> {
    step.operands.iter().map(|s| &s.ty).collect()
}

/// What kernels are asked with while a step is built: the device's limits are the planner's business.
static TARGET: LazyLock<Target> = LazyLock::new(|| crate::target(crate::DEFAULT_LIMITS));

/// The kernel of a step; `None` where the step has nothing to do.
///
/// # Errors
/// `Unsupported` for types or sizes that no kernel has.
pub fn kernel(step: &Step, cx: &Context<'_>) -> Result<Option<Kernel>> {
    if matches!(step.alias(), Alias::View { .. }) {
        return Ok(None);
    }
    let row = ROWS.iter().chain(graphs::ROWS).find(|row| row.op == step.op.name());
    let taken = row.ok_or_else(|| "it has no kernel".into());
    let taken = taken.and_then(|row| (row.takes)(&step.op, &types(step), &TARGET).map(|()| row));
    let row = taken.map_err(|why| {
        let what = format!("webgpu does not run {}: {why}", step.op.name());
        unsupported(what).at(step.label.clone())
    })?;
    let mut emit = Emit::new(cx.plan);
    let made = (row.build)(step, cx, &mut emit);
    let Some(launch) = made.map_err(|e| e.at(step.label.clone()))? else { return Ok(None) };
    if launch.words.len() as u64 * 4 > STEP_BYTES {
        return Err(Error::internal(format!("{} has too many step constants", launch.entry)));
    }
    Ok(Some(Kernel {
        wgsl: launch.wgsl,
        entry: launch.entry,
        memory: emit.memory,
        words: launch.words,
        groups: fold(launch.groups)?,
        form: emit.form,
    }))
}

/// The error of a step that came to another operator's builder.
fn mismatch(step: &Step) -> Error {
    Error::internal(format!("{} came to another operator's kernel", step.op.name()))
}

/// What an operator's file gives.
struct Launch {
    wgsl: String,
    entry: &'static str,
    words: Vec<u32>,
    /// Workgroups, of which a kernel knows its linear index.
    groups: u64,
}

/// A linear number of workgroups as a launch: the last row may reach past the end.
fn fold(groups: u64) -> Result<[u32; 3]> {
    let rows = groups.div_ceil(GROUPS_PER_AXIS).max(1);
    if rows > GROUPS_PER_AXIS {
        return Err(unsupported(format!("a launch of {groups} workgroups")));
    }
    let per_row = if rows == 1 { groups } else { GROUPS_PER_AXIS };
    Ok([per_row as u32, rows as u32, 1])
}

fn unsupported(what: String) -> Error {
    Error::new(Code::Unsupported, what)
}

/// A step constant. Sizes and offsets of a buffer fit 32 bits: `Emit` checked the largest.
fn word(n: u64) -> Result<u32> {
    u32::try_from(n).map_err(|_| unsupported(format!("a size of {n}, 32 bits hold at most 4 G")))
}

/// `[rows, columns]` of a slice, whose axes but the last are rows.
fn matrix(slice: &Slice) -> Result<(u64, u64)> {
    match slice.ty.shape.static_dims()?.as_slice() {
        [rows @ .., columns] => Ok((rows.iter().product(), *columns)),
        _ => Err(Error::internal(format!("{} has no rows", slice.ty))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rlx_core::ir::lir::{Phase, Space};
    use rlx_core::ops::{Attention, MatMul, RmsNorm};
    use rlx_core::types::{DType, Kind, Shape, Type};

    #[test]
    fn launches_above_the_axis_limit_become_two_dimensional() {
        assert_eq!(fold(65_535).unwrap(), [65_535, 1, 1]);
        assert_eq!(fold(65_536).unwrap(), [65_535, 2, 1]);
        assert_eq!(fold(0).unwrap(), [0, 1, 1]);
        assert!(fold(u64::from(u32::MAX) * 2).is_err());
    }

    /// The error of a step of this operator.
    fn refused(op: impl Into<Op>, operands: &[Type]) -> Error {
        let op = op.into();
        let slice = |(i, ty): (usize, &Type)| Slice {
            space: match ty.kind {
                Kind::Tensor => Space::Arena,
                Kind::State => Space::State,
            },
            index: i as u32,
            offset: 0,
            ty: ty.clone(),
            bytes: ty.bytes().unwrap(),
        };
        let results = op.infer(&operands.iter().collect::<Vec<_>>()).unwrap();
        let step = Step {
            op,
            operands: operands.iter().enumerate().map(slice).collect(),
            results: results.iter().enumerate().map(slice).collect(),
            regions: Vec::new(),
            part: None,
            live: None,
            phase: Phase::Steady,
            label: "here".into(),
        };
        let plan = WeightPlan::default();
        let (wgsl, tuning) = (Wgsl::default(), Tuning::usual(Wgsl::default()));
        let cx = Context { plan: &plan, rows_control: None, wgsl, tuning };
        kernel(&step, &cx).unwrap_err()
    }

    #[test]
    fn types_ranks_and_attributes_without_a_kernel_are_refused_and_named() {
        let t = |dtype, dims: &[u64]| Type::tensor(dtype, Shape::of(dims));
        let e = refused(RmsNorm { eps: 1e-5 }, &[t(DType::F16, &[2, 8]), t(DType::F32, &[8])]);
        assert_eq!(e.code, Code::Unsupported);
        assert_eq!(e.what, "webgpu does not run rms_norm: its kernel takes no f16 as operand 0");
        let op = MatMul::plain();
        let e = refused(op, &[t(DType::F32, &[2, 3, 8]), t(DType::F64, &[4, 8])]);
        assert_eq!(e.what, "webgpu does not run matmul: it reads no f64");
        let biased = MatMul { bias: true, ..MatMul::plain() };
        let e =
            refused(biased, &[t(DType::F16, &[2, 8]), t(DType::F16, &[4, 8]), t(DType::F16, &[4])]);
        assert_eq!(e.code, Code::Unsupported);
        let cache = Type::state(DType::F16, Shape::of(&[1, 8, 3]));
        let ctl = Type::state(DType::U32, Shape::of(&[16]));
        let op = Attention::causal(3, 1.0);
        let e = refused(op, &[t(DType::F32, &[1, 3]), cache.clone(), cache, ctl]);
        assert_eq!((e.code, e.at.as_str()), (Code::Unsupported, "here"));
        let why = "its kernel takes heads of an even number up to 640, not 3";
        assert_eq!(e.what, format!("webgpu does not run attention: {why}"));
    }

    #[test]
    fn every_row_names_an_operator_once() {
        let all: Vec<&Row> = ROWS.iter().chain(graphs::ROWS).collect();
        for (i, row) in all.iter().enumerate() {
            assert!(Op::NAMES.contains(&row.op), "{}", row.op);
            assert!(all[..i].iter().all(|other| other.op != row.op), "{}", row.op);
        }
        for row in graphs::ALSO {
            assert!(ROWS.iter().any(|other| other.op == row.op), "{}", row.op);
        }
    }
}
