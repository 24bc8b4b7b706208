//! The WebGPU executor as the compiler sees it.

use crate::kernels::KERNELS;
use rlx_core::target::{
    Activations, Buffers, Caches, Claims, Cost, Fusions, Limits, Policy, ProgramActivations,
    RegionLimits, RowSplits, Splits, Target,
};
use rlx_core::types::{BlockFormat, DType};

/// What caches of keys and values may be of.
/// In a page the CPU, which says whether the GPU is right, has none of `q4_0`.
pub(crate) const CACHES: &[DType] = if cfg!(target_arch = "wasm32") {
    &[DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0)]
} else {
    &[DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0), DType::Block(BlockFormat::Q4_0)]
};

/// Two blocks of `q8_0` are 17 words and two of `q4_0` 9, one is half as many: kernels write words.
pub(crate) const BLOCK_HEADS: u64 = 64;

/// The longest chain of elementwise operators that one kernel takes: the arena and six weights are within the
/// eight buffers that every device binds.
pub(crate) const REGIONS: RegionLimits = RegionLimits { steps: 32, inputs: 6 };

/// The limits of an adapter that promises nothing more than the specification.
pub const DEFAULT_LIMITS: Limits =
    Limits { buffer: 256 << 20, binding: 128 << 20, storage_buffers: 8, alignment: 256 };

/// How a model is run here. A chunk has enough rows for every core of a large GPU, which a slow one is not
/// given at once: submissions are kept short, because the screen is drawn in between. Decode waits for
/// weights, so integers of two parts cost it little. A prompt is all products, so its integers have one part.
pub(crate) const POLICY: Policy = Policy {
    chunk: 512,
    short: Some(64),
    kv: DType::F16,
    activations: ProgramActivations { decode: Activations::Int16, prompts: Activations::Int8 },
    paced: true,
    checked: true,
};

/// A WebGPU device with these limits: what its kernels take is what the kernels themselves say.
///
/// ```
/// let target = rlx_webgpu::target(rlx_webgpu::DEFAULT_LIMITS);
/// assert_eq!(target.name, "webgpu");
/// assert!(target.claims.has("matmul"));
/// ```
pub fn target(limits: Limits) -> Target {
    Target {
        name: "webgpu".into(),
        limits,
        fusions: Fusions::ALL,
        formats: Target::every_format(),
        int8: true,
        int16: true,
        super_blocks: BlockFormat::Q8_0,
        claims: Claims::of(KERNELS),
        region_limits: Some(REGIONS),
        caches: Some(Caches { types: CACHES, block_heads: BLOCK_HEADS }),
        cost: Cost { submit_us: 50.0, launch_us: 5.0, bandwidth_gb_s: 100.0 },
        arena_segments: true,
        // Columns that a workgroup of a prompt's matmul makes; one row's makes quads of them.
        row_parts: Some(64),
        attention_splits: Some(Splits {
            parts: 256,
            least: 64,
            // Workgroups of a split that is empty cost next to nothing.
            spare: 1,
            capacity: 128,
            multiple: 8,
            group: 8,
            width: 1024,
            // A workgroup of several rows is a tile of 32 queries, which takes 128 positions a step.
            rows: Some(RowSplits { most: 64, parts: 256, least: 128 }),
        }),
        buffers: Some(Buffers { multiple: 16, step: 256, staging: 16 << 20 }),
        policy: POLICY,
    }
}
