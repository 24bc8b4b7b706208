//! How fast MLX decodes: `decode MODEL.gguf [tokens] [rounds]`, greedy, the median of all rounds.
//!
//! Weights are uploaded in the first round, which is not counted.

#[path = "../../../tests/support/load.rs"]
#[allow(dead_code)] // tests use all of it
mod load;

use load::Hand;
use rlx_core::runtime::device::{Device, SharedBytes};
use rlx_core::runtime::generate::engine::{Engine, GenerateOptions, Progress};
use rlx_core::runtime::model::ModelOptions;
use rlx_core::{Error, Result, models};
use std::sync::Arc;
use std::time::Instant;

fn main() {
    if let Err(e) = run() {
        eprintln!("{e}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let usage = || Error::usage("decode MODEL.gguf [tokens] [rounds]");
    let path = words.next().ok_or_else(usage)?;
    let mut number = |or: usize| words.next().map_or(Ok(or), |n| n.parse().map_err(|_| usage()));
    let (tokens, rounds) = (number(128)?, number(5)?);
    let bytes = std::fs::read(&path).map_err(|e| Error::usage(format!("{path}: {e}")))?;
    let bytes: SharedBytes = Arc::new(bytes);
    let device: Arc<dyn Device> = Arc::new(rlx_mlx::open()?);
    println!("{}", device.info().adapter);
    let policy = device.target().policy;
    let mut options = ModelOptions::chat(policy.chunk);
    options.compile.kv = policy.kv;
    options.context = Some(512);
    let (files, compiled, session) = load::model(&[bytes], device.clone(), &options, Hand::Kept)?;
    let tokenizer = Arc::new(models::tokenizer(&files)?);
    let mut engine = Engine::new(session, Arc::new(compiled), tokenizer)?;
    let prompt: Vec<u32> = (1..17).collect();
    let how = GenerateOptions { max_tokens: Some(tokens), ..GenerateOptions::default() };
    let mut rates = Vec::new();
    for round in 0..=rounds {
        let mut generation = engine.start(prompt.clone(), &how)?;
        // From the first token on: the prompt's time does not count.
        let (mut first, mut last) = (None, None);
        while let Some(progress) = load::wait(|cx| generation.poll_next(&mut engine, cx)) {
            if let Progress::Prompt(..) = progress {
                continue;
            }
            let now = (generation.tokens().len(), Instant::now());
            first = first.or(Some(now).filter(|now| now.0 > 0));
            last = Some(now);
        }
        if let (Some(first), Some(last), true) = (first, last, round > 0) {
            let seconds = last.1.duration_since(first.1).as_secs_f64();
            rates.push((last.0 - first.0) as f64 / seconds.max(1e-9));
        }
    }
    rates.sort_by(f64::total_cmp);
    let median = rates.get(rates.len() / 2).copied().unwrap_or_default();
    println!("{median:.1} tokens/s, of {rounds} rounds {rates:.1?}");
    Ok(())
}
