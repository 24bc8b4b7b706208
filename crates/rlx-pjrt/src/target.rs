//! XLA devices as the compiler sees them: what runs is what the lowerings themselves say.

use crate::lower::CLAIMS;
use rlx_core::target::{
    Activations, Caches, Claims, Cost, Fusions, Limits, Policy, ProgramActivations, RegionLimits,
    Target,
};
use rlx_core::types::{BlockFormat, DType};
use std::sync::OnceLock;

/// The types of caches.
const CACHES: Caches = Caches {
    types: &[DType::F32, DType::F16, DType::BF16, DType::Block(BlockFormat::Q8_0)],
    block_heads: 32,
};

/// How a model is run where nobody says more.
const POLICY: Policy = Policy {
    chunk: 256,
    short: None,
    kv: DType::F16,
    activations: ProgramActivations::all(Activations::F32),
    paced: false,
    checked: false,
};

/// A TPU. XLA fuses by itself, so that graphs keep their operators.
///
/// ```
/// let target = rlx_pjrt::target();
/// assert_eq!(target.name, "tpu");
/// assert!(target.claims.has("matmul"));
/// ```
pub fn target() -> Target {
    Target {
        name: "tpu".into(),
        limits: Limits {
            buffer: 1 << 40,
            binding: 1 << 40,
            storage_buffers: 1 << 16,
            alignment: 64,
        },
        fusions: Fusions { attention: true, ..Fusions::NONE },
        formats: crate::lower::FORMATS.to_vec(),
        int8: false,
        int16: false,
        super_blocks: BlockFormat::Q8_0,
        claims: Claims::of(CLAIMS),
        region_limits: Some(RegionLimits::UNBOUNDED),
        caches: Some(CACHES),
        cost: Cost { submit_us: 50.0, launch_us: 0.5, bandwidth_gb_s: 800.0 },
        arena_segments: false,
        row_parts: None,
        attention_splits: None,
        buffers: None,
        policy: POLICY,
    }
}

/// The host's CPU through XLA, where texts for TPUs are tested: the same, by another name.
pub fn cpu_target() -> Target {
    let cost = Cost { submit_us: 20.0, launch_us: 1.0, bandwidth_gb_s: 20.0 };
    Target { name: "xla-cpu".into(), cost, policy: Policy { chunk: 64, ..POLICY }, ..target() }
}

/// NVIDIA's cards through XLA, by the plugin that JAX brings.
pub fn cuda_target() -> Target {
    let cost = Cost { submit_us: 20.0, launch_us: 2.0, bandwidth_gb_s: 2000.0 };
    Target { name: "xla-cuda".into(), cost, ..target() }
}

/// Elements of a packed weight that a product decodes at once. Larger weights go in blocks of rows, so that memory
/// holds one decoded block. An NVIDIA card starts kernels anew for each block, which took 3.5 times as long, and has
/// memory for the whole weight (docs/decisions/2026-11-28-pjrt.md).
pub(crate) fn decoded_at_once(target: &Target) -> u64 {
    if target.name == "xla-cuda" { u64::MAX } else { 1 << 20 }
}

/// The target that lowerings ask with.
pub(crate) fn plain() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(target)
}
