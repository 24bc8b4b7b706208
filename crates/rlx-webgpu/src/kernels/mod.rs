//! From a step of a program to WGSL, step constants, bindings and a launch.
//!
//! Every buffer is bound whole as `array<u32>`, once; offsets are step constants, so that two
//! steps of one shape share a pipeline. A kernel's text depends on the operator, the types it
//! reads and which of its operands share a buffer.

mod attention;
#[cfg(not(target_arch = "wasm32"))]
pub mod catalog;
mod elementwise;
mod emit;
mod formats;
mod gather;
mod matmul;
mod quantize_rows;
mod rms_norm;
mod rope;
mod sample;
mod take_rows;

pub use emit::Memory;

use emit::Emit;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::Op;
use rlx_core::plan::WeightPlan;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};

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
    pub memory: Vec<(Memory, Access)>,
    /// Step constants, at most 64 words.
    pub words: Vec<u32>,
    /// Workgroups, each axis at most 65,535.
    pub groups: [u32; 3],
}

/// What kernels depend on besides their step.
pub struct Context<'a> {
    /// Where weights are.
    pub plan: &'a WeightPlan,
    /// The control block's state, for steps whose rows past its `len` nobody reads.
    pub rows_control: Option<u32>,
    /// Whether WGSL has `dot4I8Packed`.
    pub packed_dot: bool,
}

/// The kernel of a step; `None` where the step has nothing to do.
///
/// # Errors
/// `Unsupported` for types or sizes that no kernel has.
pub fn kernel(step: &Step, cx: &Context<'_>) -> Result<Option<Kernel>> {
    let mut emit = Emit::new(cx.plan);
    let made = match &step.op {
        Op::MatMul(op) => matmul::matmul(op, step, cx, &mut emit),
        Op::Gather(op) => gather::gather(op, step, &mut emit),
        Op::RmsNorm(op) => rms_norm::rms_norm(op, step, &mut emit),
        Op::QuantizeRows(op) => quantize_rows::quantize_rows(op, step, &mut emit),
        Op::Rope(op) => rope::rope(op, step, &mut emit),
        Op::KvWrite(_) => rope::kv_write(step, &mut emit),
        Op::RopeKvWrite(op) => rope::rope_kv_write(op, step, &mut emit),
        Op::Attention(op) => attention::attention(op, step, &mut emit),
        Op::Map(op) => elementwise::unary(op, step, &mut emit),
        Op::Zip(op) => elementwise::binary(op, step, &mut emit),
        Op::TakeRows(_) => take_rows::take_rows(step, &mut emit),
        Op::Reshape(_) | Op::Token(_) => return Ok(None),
        Op::Sample(_) => sample::sample(step, &mut emit),
        Op::RopeTable(_) => {
            Err(Error::internal("a rope_table is a constant, made when weights are loaded"))
        }
        other => {
            Err(Error::new(Code::Unsupported, format!("WebGPU has no kernel for {}", other.name())))
        }
    };
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
    }))
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

/// `[rows, columns]` of a matrix slice.
fn matrix(slice: &Slice) -> Result<(u64, u64)> {
    match slice.ty.shape.static_dims()?.as_slice() {
        [rows, columns] => Ok((*rows, *columns)),
        _ => Err(Error::internal(format!("{} is no matrix", slice.ty))),
    }
}

/// Whether a cache holds f16 pairs; f32 otherwise.
fn is_f16(slice: &Slice) -> bool {
    slice.ty.dtype == DType::F16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_above_the_axis_limit_become_two_dimensional() {
        assert_eq!(fold(65_535).unwrap(), [65_535, 1, 1]);
        assert_eq!(fold(65_536).unwrap(), [65_535, 2, 1]);
        assert_eq!(fold(0).unwrap(), [0, 1, 1]);
        assert!(fold(u64::from(u32::MAX) * 2).is_err());
    }
}
