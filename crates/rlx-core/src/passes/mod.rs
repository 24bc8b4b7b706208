//! Passes, one file each: functions on the graph that return how much they changed. No pass has
//! state or knows a device by name; fusions ask the target.

mod bake;
mod casts;
#[cfg(feature = "control_flow")]
mod control_flow;
mod cse;
mod dce;
mod dispatch;
mod elementwise_region;
mod fold;
mod fuse_attention;
mod fuse_bias;
mod fuse_glu;
mod fuse_head_norm;
mod fuse_map;
mod fuse_norm_add;
mod fuse_norm_prologue;
mod fuse_residual;
mod fuse_residual_norm;
mod fuse_rope_kv_write;
mod fuse_rope_split;
mod fuse_segments;
mod halves;
mod int8;
mod json;
mod legalise;
pub mod pipeline;
mod precision;
mod report;
mod rewrite;
mod simplify;
mod split_attention;
mod sweep;
#[cfg(feature = "parallel")]
mod tensor_parallel;

pub use bake::bake;
#[cfg(feature = "control_flow")]
pub use control_flow::control_flow;
pub use cse::cse;
pub use dce::dce;
pub use elementwise_region::elementwise_region;
pub use fold::fold;
pub use simplify::simplify;
#[cfg(feature = "parallel")]
pub use tensor_parallel::tensor_parallel;

pub use dispatch::{DispatchReport, KindReport, Route, Unsupported};
pub use pipeline::{
    Optimised, PassTrace, Watch, cleanup, dispatch_report, optimise, optimise_watched, pass_names,
    preprocess,
};
pub use report::{FusionReport, Miss, Reason, Traffic};

use rewrite::{Rewrite, remove_nodes};

use crate::ir::mir::{Graph, ValueId};
use crate::ops::{Alias, Op};
use crate::target::{Activations, CompileOptions, Path, Target};
use crate::types::{DType, Type};
use alloc::string::String;
use alloc::vec::Vec;

/// What a pass may read, and the reports it writes.
pub struct Context<'a> {
    /// The device.
    pub target: &'a Target,
    /// The options.
    pub options: &'a CompileOptions,
    /// The report of fusions and near misses.
    pub report: FusionReport,
    /// The report of how operators run, written by legalisation.
    pub dispatch: DispatchReport,
    /// Multiply-adds that folding has spent on the graph.
    pub folded: u64,
}

impl<'a> Context<'a> {
    /// A context with empty reports.
    pub fn new(target: &'a Target, options: &'a CompileOptions) -> Self {
        let claim = match &options.supported_ops {
            Some(names) => (!names.is_empty()).then_some(names.len()),
            None if target.claims.loops => None,
            None => Some(target.claims.len()),
        };
        let dispatch = DispatchReport::new(&target.name, options.dispatch.policy, claim);
        Context { target, options, report: FusionReport::default(), dispatch, folded: 0 }
    }

    /// How an operator runs: by the names that the options claim, if they do, else by the target's own
    /// claims. An empty list of names claims nothing: everything is assumed to run.
    ///
    /// # Errors
    /// The reason why it does not run, as a clause.
    pub fn path(&self, op: &Op, operands: &[&Type]) -> Result<Path, String> {
        let Some(names) = &self.options.supported_ops else {
            return self.target.path(op, operands);
        };
        if matches!(op.alias(operands), Alias::View { .. }) {
            Ok(Path::View)
        } else if names.is_empty() || names.iter().any(|n| n == op.name()) {
            Ok(Path::Native)
        } else if Target::makes_on_host(op) {
            Ok(Path::HostConstant)
        } else {
            Err("it is not among the operators that the options claim".into())
        }
    }

    /// Whether the target runs a fused operator over values of `g` as well as the operators it replaces: by
    /// a kernel, in their element types or in f32, or by loops if the target has only loops.
    pub fn fuses(&self, g: &Graph, op: &Op, inputs: &[ValueId]) -> bool {
        let exact: Vec<&Type> = inputs.iter().map(|&v| g.ty(v)).collect();
        if self.runs_well(op, &exact) {
            return true;
        }
        let wide = legalise::widened(op, &exact);
        self.runs_well(op, &wide.iter().collect::<Vec<_>>())
    }

    /// Whether an operator runs by a kernel, or by loops if the target has only loops.
    pub fn runs_well(&self, op: &Op, operands: &[&Type]) -> bool {
        match self.path(op, operands) {
            Ok(Path::Native) => true,
            Ok(Path::Loops) => self.target.claims.is_empty(),
            _ => false,
        }
    }

    /// Whether matmuls of packed weights read blocks of integers.
    pub fn integers(&self) -> bool {
        match self.options.activations {
            Activations::F32 | Activations::F16 => false,
            Activations::Int8 => self.target.int8,
            Activations::Int16 | Activations::Mixed => self.target.int16,
        }
    }
}

/// The element type, if a policy may choose it.
fn policy_float(ty: &Type) -> Option<DType> {
    let tensor = ty.kind == crate::types::Kind::Tensor;
    (tensor && matches!(ty.dtype, DType::F32 | DType::F16 | DType::BF16)).then_some(ty.dtype)
}

/// Operands that a kernel reads in any float or packed type, so that they need no cast.
fn weights(op: &Op) -> core::ops::Range<usize> {
    match op {
        Op::MatMul(m) => {
            let first = m.parts().weights;
            first..first + m.segments
        }
        Op::GroupedMatMul(m) => {
            let first = m.parts().banks;
            first..first + m.segments
        }
        Op::Gather(_) => 0..1,
        _ => 0..0,
    }
}

#[cfg(test)]
mod testing;
