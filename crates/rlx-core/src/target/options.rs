//! Choices that are neither the model's nor the device's.

use super::{FusionTarget, KernelDispatch, PrecisionPolicy};
use crate::ir::hir::FusionPolicy;
use crate::types::{Binding, DType};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// The type activations have where they meet packed weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activations {
    /// f32 throughout.
    F32,
    /// int8 blocks, where the weight is packed.
    Int8,
}

impl Activations {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Int8 => "int8",
        }
    }
}

/// How long a chain of elementwise operators may grow when it becomes one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionLimits {
    /// Steps of the chain.
    pub steps: usize,
    /// Tensors it reads.
    pub inputs: usize,
}

impl RegionLimits {
    /// No limit.
    pub const UNBOUNDED: RegionLimits = RegionLimits { steps: usize::MAX, inputs: usize::MAX };
}

/// What a compilation is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    /// Activation type in matmuls of packed weights.
    pub activations: Activations,
    /// Element type of the caches: f32, f16 or q8_0.
    pub kv: DType,
    /// Element types of everything else.
    pub precision: PrecisionPolicy,
    /// Whether nodes that nothing reads are removed.
    pub dce: bool,
    /// Whether nodes over constants are computed.
    pub constant_folding: bool,
    /// Whether the report is for printing.
    pub verbose: bool,
    /// The backend that is compiled for, where it is not the device's own.
    pub fusion_target: FusionTarget,
    /// How blocks are lowered; as the module says when absent.
    pub fusion_policy: Option<FusionPolicy>,
    /// Leaves out every fusion.
    pub skip_fusion: bool,
    /// Leaves elementwise chains as single nodes.
    pub unfuse_regions: bool,
    /// Limits of elementwise chains; the target's when absent.
    pub region_limits: Option<RegionLimits>,
    /// Fails when the fusion report has a miss.
    pub assert_clean: bool,
    /// Alignment of arena slots in bytes, a power of two from 64 on.
    pub alignment: u64,
    /// Kernels of the device's own, or the operators they stand for.
    pub dispatch: KernelDispatch,
    /// Operators the device is taken to claim; its own claims when absent.
    pub supported_ops: Option<Vec<String>>,
    /// Whether programs of other sizes are compiled later over the same weights: tensors of the file are then
    /// read as the file has them, and only constants are laid out while loading.
    pub whole_weights: bool,
    /// Symbols to bind; empty leaves them.
    pub binding: Binding,
    /// Values of parameters that become constants: name and little-endian bytes.
    pub baked: BTreeMap<String, Vec<u8>>,
    /// Names of passes that are not run.
    pub without: Vec<String>,
}

impl Default for CompileOptions {
    /// f32 throughout, every pass.
    fn default() -> Self {
        CompileOptions {
            activations: Activations::F32,
            kv: DType::F32,
            precision: PrecisionPolicy::AlwaysF32,
            dce: true,
            constant_folding: true,
            verbose: false,
            fusion_target: FusionTarget::Auto,
            fusion_policy: None,
            skip_fusion: false,
            unfuse_regions: false,
            region_limits: None,
            assert_clean: false,
            alignment: 64,
            dispatch: KernelDispatch::default(),
            supported_ops: None,
            whole_weights: false,
            binding: Binding::new(),
            baked: BTreeMap::new(),
            without: Vec::new(),
        }
    }
}
