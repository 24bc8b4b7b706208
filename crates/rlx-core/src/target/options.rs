//! Options of a compilation: choices that belong neither to the model nor to the device.

use super::{FusionTarget, KernelDispatch, PrecisionPolicy};
use crate::ir::hir::{Caches, FusionPolicy};
use crate::types::{Binding, BlockFormat, DType};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Activation type in matmuls of packed weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activations {
    /// f32 throughout.
    F32,
    /// int8 blocks for packed weights, else f32.
    Int8,
    /// Blocks of integers in two parts of 8 bits for packed weights, else f32.
    Int16,
}

impl Activations {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
        }
    }
}

/// How long a chain of elementwise operators in one node may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionLimits {
    /// Most operators of the chain.
    pub steps: usize,
    /// Most tensors that it reads.
    pub inputs: usize,
}

impl RegionLimits {
    /// No limit.
    pub const UNBOUNDED: RegionLimits = RegionLimits { steps: usize::MAX, inputs: usize::MAX };
}

/// Options of a compilation.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    /// Activation type in matmuls of packed weights.
    pub activations: Activations,
    /// The int8 blocks of x that meet weights in super-blocks; absent: the target's. For comparing devices: one rounds
    /// as the other does.
    pub super_blocks: Option<BlockFormat>,
    /// Element type of the caches: f32, f16 or q8_0.
    pub kv: DType,
    /// Positions that the cache of a layer with a window keeps beyond the window; `None`: the whole context. As
    /// [`Caches::spare`].
    pub cache_spare: Option<u64>,
    /// Element types of everything else.
    pub precision: PrecisionPolicy,
    /// Whether nodes that nothing reads are removed.
    pub dce: bool,
    /// Whether nodes over constants are computed.
    pub constant_folding: bool,
    /// Whether the report is for printing.
    pub verbose: bool,
    /// The backend to compile for, if it is not the device's own.
    pub fusion_target: FusionTarget,
    /// How blocks are lowered; absent: as the module says.
    pub fusion_policy: Option<FusionPolicy>,
    /// Whether to skip every fusion.
    pub skip_fusion: bool,
    /// Whether to keep each operator of an elementwise chain as a node of its own.
    pub unfuse_regions: bool,
    /// Limits of elementwise chains; absent: the target's.
    pub region_limits: Option<RegionLimits>,
    /// Whether to fail if the fusion report has a miss.
    pub assert_clean: bool,
    /// Alignment of arena slots in bytes, a power of two from 64 on.
    pub alignment: u64,
    /// Which operators run on the device's kernels, and which are decomposed.
    pub dispatch: KernelDispatch,
    /// Names of the operators that the device is assumed to claim; absent: its own claims.
    pub supported_ops: Option<Vec<String>>,
    /// Whether programs of other sizes will be compiled later for the same weights. Tensors of the file are then
    /// loaded as they are, and only constants are transformed while loading.
    pub whole_weights: bool,
    /// Symbols to bind; others stay unbound.
    pub binding: Binding,
    /// Values of parameters that become constants: name and little-endian bytes.
    pub baked: BTreeMap<String, Vec<u8>>,
    /// Names of passes to skip.
    pub without: Vec<String>,
}

impl Default for CompileOptions {
    /// f32 throughout, every pass.
    fn default() -> Self {
        CompileOptions {
            activations: Activations::F32,
            super_blocks: None,
            kv: DType::F32,
            cache_spare: None,
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

impl CompileOptions {
    /// How caches are kept.
    pub fn caches(&self) -> Caches {
        Caches { kv: self.kv, spare: self.cache_spare }
    }
}
