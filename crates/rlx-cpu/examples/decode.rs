//! Tokens a second of a GGUF model: a prompt of 64 tokens, then 256 decode steps.
//!
//! `cargo run --release -p rlx-cpu --example decode THREADS f32|int8 SHARD...`

#[path = "../../../tests/support/load.rs"]
mod load;
#[path = "../tests/common/model.rs"]
mod model;

use rlx_core::runtime::generate::engine::GenerateOptions;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::target::Activations;
use rlx_core::types::DType;
use rlx_cpu::{CpuDevice, CpuOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [threads, activations, shards @ ..] = args.as_slice() else {
        return Err("THREADS f32|int8 SHARD...".into());
    };
    let mut options = ModelOptions::chat(64);
    options.context = Some(512);
    options.compile.kv = DType::F16;
    let of_packed = if activations == "int8" { Activations::Int8 } else { Activations::F32 };
    options.activations = of_packed.into();
    let cpu = CpuOptions { threads: Some(threads.parse()?), ..CpuOptions::default() };
    let device = Arc::new(CpuDevice::new(cpu)?);
    let shards: Vec<&Path> = shards.iter().map(Path::new).collect();
    let mut engine = model::load(&shards, device, &options, true)?;
    let bytes = engine.compiled().plan.bytes() as f64;
    println!("{}, {activations}, {:.1} MB of weights", engine.info().adapter, bytes / 1e6);
    for round in 0..3 {
        engine.reset();
        let prompt: Vec<u32> = (0..64).map(|i| (i * 37 + round) % 1000 + 100).collect();
        let time = |engine: &mut _, n| -> rlx_core::Result<f64> {
            let options =
                GenerateOptions { max_tokens: Some(n), ignore_stops: true, ..Default::default() };
            let start = Instant::now();
            model::generate(engine, &prompt, &options)?;
            Ok(start.elapsed().as_secs_f64())
        };
        let first = time(&mut engine, 1)?;
        engine.reset();
        let all = time(&mut engine, 257)?;
        let step = (all - first) / 256.0;
        println!(
            "prompt {:.0} tok/s, decode {:.0} tok/s, {:.1} GB/s of weights",
            64.0 / first,
            1.0 / step,
            bytes / step / 1e9
        );
    }
    Ok(())
}
