//! Compile profiles: what a model family asks of the compiler, as a value and as a file.
//!
//! ```toml
//! [fusion]
//! policy = "fusable"          # direct | fusable
//! target = "auto"             # auto, or a backend by its name, as `FusionTarget` lists them
//! assert_clean = false
//! skip = false
//!
//! [passes]
//! dce = true
//! constant_folding = true
//! verbose = false
//!
//! [precision]
//! compute = "f32"             # f32 | f16 | bf16
//! mixed = "none"              # none | auto
//!
//! [backend.NAME]              # one table per backend
//! skip_fusion = false
//! unfuse_regions = false
//! ```
//!
//! Every table and key is optional. Text becomes a profile under the cargo feature `profile`
//! (`from_toml_str`, `to_toml_string`); the core opens no file.

mod options;
mod presets;
#[cfg(feature = "profile")]
mod toml;

pub use crate::ir::hir::FusionPolicy;
pub use crate::target::FusionTarget;
pub use presets::{Preset, PresetRow, Presets};

use crate::target::Precision;

/// What a family asks of the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileProfile {
    /// How blocks become fused operators.
    pub fusion: FusionProfile,
    /// Which passes run.
    pub passes: PassProfile,
    /// Element types.
    pub precision: PrecisionProfile,
    /// Hints for one backend each.
    pub backend: BackendOverrides,
}

impl Default for CompileProfile {
    /// [`llama32_prefill`](Self::llama32_prefill).
    fn default() -> Self {
        Self::llama32_prefill()
    }
}

impl CompileProfile {
    /// How blocks are lowered.
    pub fn fusion_policy(&self) -> FusionPolicy {
        self.fusion.policy
    }
}

/// How blocks become fused operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FusionProfile {
    /// To fused operators at once, or to chains that passes fuse.
    pub policy: FusionPolicy,
    /// The backend to compile for.
    pub target: FusionTarget,
    /// Whether a near miss is an error.
    pub assert_clean: bool,
    /// Leaves out every fusion, on every backend.
    pub skip: bool,
}

impl Default for FusionProfile {
    fn default() -> Self {
        FusionProfile {
            policy: FusionPolicy::Direct,
            target: FusionTarget::Auto,
            assert_clean: false,
            skip: false,
        }
    }
}

/// Which passes run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassProfile {
    /// Nodes that nothing reads are removed.
    pub dce: bool,
    /// Nodes over constants are computed.
    pub constant_folding: bool,
    /// The report is for printing.
    pub verbose: bool,
}

impl Default for PassProfile {
    fn default() -> Self {
        PassProfile { dce: true, constant_folding: true, verbose: false }
    }
}

/// Whether classes of operators may differ in precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mixed {
    /// One precision.
    #[default]
    None,
    /// A 16-bit type where it is safe; f32 at the boundary and in accumulators.
    Auto,
}

/// Element types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrecisionProfile {
    /// The type of everything but the boundary.
    pub compute: Precision,
    /// Whether classes may differ.
    pub mixed: Mixed,
}

/// Hints for one backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendHints {
    /// Leaves out every fusion.
    pub skip_fusion: bool,
    /// Leaves elementwise chains as single nodes.
    pub unfuse_regions: bool,
}

/// One table of hints a backend, by [`FusionTarget`]; only that of the compiled backend is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendOverrides([BackendHints; FusionTarget::ALL.len()]);

impl BackendOverrides {
    /// The hints of a backend; none for `auto`.
    pub fn of(&self, target: FusionTarget) -> BackendHints {
        self.0[target as usize]
    }

    /// The hints of a backend, to change; `None` for `auto`.
    pub fn of_mut(&mut self, target: FusionTarget) -> Option<&mut BackendHints> {
        target.explicit().map(|target| &mut self.0[target as usize])
    }
}
