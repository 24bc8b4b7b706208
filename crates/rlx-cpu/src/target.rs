//! What the compiler is told about this executor.

use crate::kernels::KERNELS;
use rlx_core::target::{
    Activations, Caches, Claims, Cost, Fusions, Limits, Policy, ProgramActivations, RegionLimits,
    Splits, Target,
};
use rlx_core::types::{BlockFormat, DType};

/// What caches of keys and values may be of. A page's download has no room for attention over `q4_0`.
pub(crate) const CACHES: &[DType] = if cfg!(target_arch = "wasm32") {
    &[DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0)]
} else {
    &[DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0), DType::Block(BlockFormat::Q4_0)]
};

/// Whether kernels multiply activations of 16 bits. They are a second form of every format's kernel, for which a page's
/// download has no room.
pub(crate) const INT16: bool = cfg!(not(target_arch = "wasm32"));

/// The longest chain of elementwise operators that is one step: registers of all of them stay in the
/// second cache.
const REGIONS: RegionLimits = RegionLimits { steps: 32, inputs: 16 };

/// Decode waits for memory, so that its second products cost little; a prompt has them where they count. In wasm decode
/// waits for products, and a prompt's are of one part.
const ACTIVATIONS: ProgramActivations = if cfg!(not(target_arch = "wasm32")) {
    ProgramActivations { decode: Activations::Int16, prompts: Activations::Mixed }
} else {
    ProgramActivations::all(Activations::Int8)
};

/// How a model is run here. A chunk is long enough that unpacked weights serve many rows. Caches of f16 are half the
/// bytes of f32, and change an answer less than activations of integers do.
const POLICY: Policy = Policy {
    chunk: 128,
    short: None,
    kv: DType::F16,
    activations: ACTIVATIONS,
    paced: false,
    checked: false,
};

/// The CPU executor as the compiler sees it: the kernels of this build, and with the feature `reference`
/// the oracle's loops for everything else.
///
/// A norm of its own costs a barrier; as a matmul's prologue it would cost every worker a pass over x, and
/// int8 activations need it done first anyway.
///
/// The CPU binds nothing: limits are what an address reaches, one number for every platform, as
/// fingerprints are. What a 32-bit host has no memory for, it says when it allocates.
pub fn target() -> Target {
    Target {
        name: "cpu".into(),
        limits: Limits { buffer: 1 << 40, binding: 1 << 40, storage_buffers: 64, alignment: 64 },
        fusions: Fusions { norm_prologue: false, quantize_prologue: false, ..Fusions::ALL },
        formats: Target::every_format(),
        int8: true,
        int16: INT16,
        super_blocks: BlockFormat::Q8_0,
        claims: Claims { loops: cfg!(feature = "reference"), ..Claims::of(KERNELS) },
        region_limits: cfg!(feature = "graphs").then_some(REGIONS),
        caches: Some(Caches { types: CACHES, block_heads: 1 }),
        cost: Cost { submit_us: 10.0, launch_us: 2.0, bandwidth_gb_s: 20.0 },
        arena_segments: false,
        row_parts: None,
        attention_splits: Some(Splits {
            parts: 16,
            least: 256,
            spare: 4,
            capacity: 2048,
            multiple: 1,
            group: u64::MAX,
            width: u64::MAX,
            rows: None,
        }),
        buffers: None,
        policy: POLICY,
    }
}
