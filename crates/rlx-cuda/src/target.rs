//! The CUDA executor as the compiler sees it, on NVIDIA's cards and on AMD's.

use crate::kernels::KERNELS;
use rlx_core::target::{
    Activations, Buffers, Claims, Cost, Fusions, Limits, Policy, ProgramActivations, Target,
};
use rlx_core::types::DType;

/// The name of the target of AMD's cards.
pub(crate) const ROCM: &str = "rocm";

/// Limits of a card: memory is bound by pointers of 64 bits.
const LIMITS: Limits =
    Limits { buffer: 1 << 40, binding: 1 << 40, storage_buffers: 32, alignment: 256 };

/// How a model is run where nobody says more.
const POLICY: Policy = Policy {
    chunk: 2048,
    short: None,
    kv: DType::F16,
    activations: ProgramActivations { decode: Activations::F32, prompts: Activations::F16 },
    paced: false,
    checked: false,
};

/// An AMD device: the same kernels, and products of prompts with halves where the machine has hipBLASLt.
///
/// ```
/// let (cuda, rocm) = (rlx_cuda::target(), rlx_cuda::rocm_target());
/// assert_eq!((rocm.name.as_ref(), rocm.claims.has("matmul")), ("rocm", true));
/// assert_eq!(cuda.limits, rocm.limits);
/// ```
pub fn rocm_target() -> Target {
    Target { name: ROCM.into(), ..target() }
}

/// A CUDA device: what its kernels take is what the kernels themselves say.
///
/// ```
/// let target = rlx_cuda::target();
/// assert_eq!(target.name, "cuda");
/// assert!(target.claims.has("matmul"));
/// ```
pub fn target() -> Target {
    Target {
        name: "cuda".into(),
        limits: LIMITS,
        fusions: Fusions {
            norm_prologue: true,
            residual: true,
            segments: true,
            glu: true,
            rope_kv_write: true,
            matmul_epilogue: true,
            norm_add: true,
            attention: true,
            ..Fusions::NONE
        },
        formats: Target::every_format(),
        int8: false,
        int16: false,
        super_blocks: rlx_core::types::BlockFormat::Q8_0,
        claims: Claims::of(KERNELS),
        region_limits: Some(crate::kernels::REGIONS),
        caches: Some(crate::kernels::CACHES),
        cost: Cost { submit_us: 5.0, launch_us: 1.5, bandwidth_gb_s: 2000.0 },
        arena_segments: false,
        row_parts: None,
        attention_splits: None,
        buffers: Some(Buffers { multiple: 256, step: 0, staging: 0 }),
        policy: POLICY,
    }
}
