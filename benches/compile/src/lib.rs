//! A decoder of 28 layers, from its blocks to a planned program. No weight byte is needed.
//!
//! The same code is timed natively by `main.rs` and in wasm by `run.mjs`, through the functions at
//! the foot of this file.

pub mod heap;
// The targets of the core's tests: the same from commit to commit, whatever the executors learn.
#[allow(dead_code)]
#[path = "../../../crates/rlx-core/tests/support/targets.rs"]
mod targets;

use rlx_core::Result;
use rlx_core::compile::CompilePipeline;
use rlx_core::ir::hir::{
    AttentionSpec, FfnWeights, FusionPolicy, KeyValues, LinearWeights, Module, Tensor, Weight,
};
use rlx_core::ir::lir::Program;
use rlx_core::lower::ProgramSpec;
use rlx_core::ops::{RopeScaling, RopeStyle, RopeTable};
use rlx_core::target::{CompileOptions, Limits, Target};
use rlx_core::types::{BlockFormat, DType, Shape, Type};
use std::sync::Arc;

/// Layers.
pub const LAYERS: usize = 28;
/// Sizes of Llama 3.2 3B: D, F, vocabulary, positions.
const DIM: u64 = 3072;
const FFN: u64 = 8192;
const VOCAB: u64 = 128_256;
const CONTEXT: u64 = 4096;
/// Query heads, key and value heads, width of a head.
const HEADS: [u64; 3] = [24, 8, 128];

fn weight(name: String, dims: &[u64]) -> Weight {
    let dtype = if dims.len() > 1 { DType::Block(BlockFormat::Q4K) } else { DType::F32 };
    Weight { name, ty: Type::tensor(dtype, Shape::of(dims)) }
}

fn linear(name: String, out: u64, input: u64) -> LinearWeights {
    LinearWeights { weight: weight(name, &[out, input]), bias: None }
}

fn layer(m: &mut Module, x: Tensor, i: usize) -> Tensor {
    let name = |part: &str| format!("blk.{i}.{part}.weight");
    let label = |part: &str| format!("blk.{i}.{part}");
    let (q_dim, kv_dim) = (HEADS[0] * HEADS[2], HEADS[1] * HEADS[2]);
    let h = m.rms_norm(x, weight(name("attn_norm"), &[DIM]), 1e-5, &label("attn_norm"));
    let q = m.linear(h, linear(name("attn_q"), q_dim, DIM), &label("attn_q"));
    let k = m.linear(h, linear(name("attn_k"), kv_dim, DIM), &label("attn_k"));
    let v = m.linear(h, linear(name("attn_v"), kv_dim, DIM), &label("attn_v"));
    let spec = AttentionSpec {
        layer: i,
        heads: HEADS[0] as usize,
        kv_heads: HEADS[1] as usize,
        head_dim: HEADS[2] as usize,
        scale: 0.088_388_346,
        window: None,
        softcap: None,
        block: None,
        rope_style: RopeStyle::Adjacent,
        rope: Some(RopeTable {
            base: 500_000.0,
            dims: HEADS[2] as usize,
            context: CONTEXT,
            scaling: RopeScaling::None,
        }),
        rope_factors: Some(weight("rope_freqs.weight".into(), &[HEADS[2] / 2])),
        qk_norm: None,
        sinks: None,
    };
    let a = m.attention(q, KeyValues::Both(k, v), spec);
    let a = m.linear(a, linear(name("attn_output"), DIM, q_dim), &label("attn_output"));
    let x = m.add(x, a, &label("attn_residual"));
    let h = m.rms_norm(x, weight(name("ffn_norm"), &[DIM]), 1e-5, &label("ffn_norm"));
    let ffn = FfnWeights {
        gate: linear(name("ffn_gate"), FFN, DIM),
        up: linear(name("ffn_up"), FFN, DIM),
        down: linear(name("ffn_down"), DIM, FFN),
    };
    let f = m.swiglu_ffn(h, ffn, &label("ffn"));
    m.add(x, f, &label("ffn_residual"))
}

/// The model's blocks.
pub fn module(policy: FusionPolicy) -> Module {
    let mut m = Module::new("llama", CONTEXT, VOCAB).with_policy(policy);
    let table = weight("token_embd.weight".into(), &[VOCAB, DIM]);
    let ids = m.ids();
    let mut x = m.embedding(ids, table.clone());
    for i in 0..LAYERS {
        x = layer(&mut m, x, i);
    }
    let x = m.out_rows(x);
    let x = m.rms_norm(x, weight("output_norm.weight".into(), &[DIM]), 1e-5, "output_norm");
    m.lm_head(x, LinearWeights { weight: table, bias: None });
    m
}

/// What every case is compiled with.
pub fn options() -> CompileOptions {
    CompileOptions { kv: DType::F16, ..CompileOptions::default() }
}

/// One program of the model.
///
/// # Errors
/// None that a caller can cause: the blocks fit.
pub fn program(m: &Module, spec: &ProgramSpec, target: &Target) -> Result<Program> {
    let pipeline = CompilePipeline::new(target.clone()).with_options(options());
    pipeline.compile_program(m, spec).map(|done| Arc::unwrap_or_clone(done.lir))
}

/// Programs and targets that are timed, by number.
pub fn case(n: usize) -> Option<(FusionPolicy, ProgramSpec, Target)> {
    // The embedding has 222 MB: above the specification's limits, within those of real adapters.
    let limits = Limits { buffer: 1 << 30, binding: 1 << 30, ..targets::GPU_LIMITS };
    let gpu = || targets::gpu_with(limits);
    Some(match n {
        0 => (FusionPolicy::Fusable, ProgramSpec::decode(), gpu()),
        1 => (FusionPolicy::Fusable, ProgramSpec::prefill_last(256), gpu()),
        2 => (FusionPolicy::Direct, ProgramSpec::decode(), gpu()),
        3 => (FusionPolicy::Fusable, ProgramSpec::decode(), targets::host()),
        _ => return None,
    })
}

/// Blocks to program, of one case.
///
/// # Errors
/// As [`program`].
pub fn run(case: &(FusionPolicy, ProgramSpec, Target)) -> Result<Program> {
    program(&module(case.0), &case.1, &case.2)
}

/// For wasm: compiles case `n` and returns its steps, 0 if there is no such case or it fails.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn steps(n: usize) -> usize {
    case(n).and_then(|c| run(&c).ok()).map_or(0, |p| p.steps.len())
}

/// For wasm: the most bytes of the heap that case `n` takes at once.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn peak_bytes(n: usize) -> usize {
    heap::peak(|| steps(n)).1
}
