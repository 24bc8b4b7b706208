//! The MLX executor as the compiler sees it.

use crate::lower::CLAIMS;
use rlx_core::target::{
    Activations, Caches, Claims, Cost, Fusions, Limits, Policy, ProgramActivations, Target,
};
use rlx_core::types::{BlockFormat, DType};

/// What caches of keys and values may be of.
const CACHES: Caches = Caches { types: &[DType::F32, DType::F16, DType::BF16], block_heads: 1 };

/// An MLX device. MLX fuses by itself, so that nothing is fused for it but attention, which it has.
///
/// ```
/// let target = rlx_mlx::target();
/// assert_eq!(target.name, "mlx");
/// assert!(target.claims.has("matmul"));
/// ```
pub fn target() -> Target {
    Target {
        name: "mlx".into(),
        limits: Limits { buffer: 1 << 40, binding: 1 << 40, storage_buffers: 64, alignment: 64 },
        fusions: Fusions { attention: true, ..Fusions::NONE },
        formats: Target::every_format(),
        int8: false,
        int16: false,
        super_blocks: BlockFormat::Q8_0,
        claims: Claims::of(CLAIMS),
        region_limits: None,
        caches: Some(CACHES),
        cost: Cost { submit_us: 20.0, launch_us: 2.0, bandwidth_gb_s: 200.0 },
        arena_segments: false,
        row_parts: None,
        attention_splits: None,
        buffers: None,
        policy: Policy {
            // A graph computes all rows of a chunk, whether they are there or not.
            chunk: 256,
            short: Some(32),
            kv: DType::F16,
            activations: ProgramActivations::all(Activations::F32),
            paced: false,
            checked: false,
        },
    }
}
