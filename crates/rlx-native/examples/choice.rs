//! Times the forms of a GPU's products on the layers of models, as a load does before its first model of a kind, but
//! each time anew and on simulated GPUs too: `cargo run --release -p rlx-native --example choice -- [TURNS] MODEL...`.
//! Prints a line of JSON a turn: what was timed, what it chose, how long it took.

use rlx_core::runtime::choice::measure;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::runtime::trial::Excerpt;
use rlx_core::{Error, Result};
use rlx_native::block_on::block_on;
use rlx_native::devices::{OpenOptions, find};
use rlx_native::network::CheckpointFiles;
use serde_json::json;
use std::path::Path;
use std::pin::pin;
use std::time::Instant;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let turns = arguments.peek().and_then(|a| a.parse().ok());
    if turns.is_some() {
        arguments.next();
    }
    if arguments.peek().is_none() {
        return Err(Error::usage("no model is given"));
    }
    let device = (find("webgpu")?.open)(&OpenOptions::default())?;
    let info = device.info();
    for path in arguments {
        let source = CheckpointFiles::open(Path::new(&path))?;
        let options = ModelOptions::by(&device.target().policy);
        for turn in 0..turns.unwrap_or(1) {
            let begin = Instant::now();
            let now = || begin.elapsed().as_secs_f64() * 1e3;
            let excerpt = Excerpt::new(&source.checkpoint(), &options)?;
            let mut run = pin!(measure(&excerpt, &device, &options, &now));
            let times = block_on(|cx| run.as_mut().poll(cx))?;
            let line = json!({
                "adapter": info.adapter, "features": info.features, "model": path, "layers": excerpt.class(),
                "turn": turn, "recommended": options.activations.to_string(),
                "decode_ms": times.decode, "prompt_ms": times.prompts,
                "chosen": times.choose(options.activations).to_string(), "took_ms": now(),
            });
            println!("{line}");
        }
    }
    Ok(())
}
