//! `rlx bench`.

use super::kernel_times::{Show, time_kernels};
use super::options::ModelArgs;
use super::{print_json, print_text};
use crate::choice::ChosenJson;
use crate::load::Model;
use crate::platform::peak_rss_bytes;
use crate::tools::bench::{BenchOptions, Turns, bench as measure};
use clap::Args;
use rlx_core::{Code, Error, Result};
use serde::Serialize;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct BenchArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Number of prompt tokens to time
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    prompt_tokens: u32,
    /// Number of decode steps to time
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,
    /// Number of tokens in the caches before timing starts
    #[arg(long, value_name = "N", default_value_t = 0)]
    depth: u32,
    /// Number of repetitions; prints medians
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// Wait for lines `prefill` and `decode` on stdin; answer each with its seconds, as JSON
    #[arg(long, conflicts_with_all = ["json", "repeat"])]
    turns: bool,
    /// Print the time of every kernel by the device's clock, and the bytes it must move
    #[arg(long, conflicts_with_all = ["turns", "repeat"])]
    profile: bool,
    /// Write the kernel times as a trace that Perfetto and chrome://tracing open
    #[arg(long, value_name = "FILE", requires = "profile")]
    trace: Option<PathBuf>,
    /// With `--trace`: replace an existing file
    #[arg(long, requires = "trace")]
    force: bool,
}

#[derive(Serialize)]
struct Measured {
    prefill_tokens_per_s: f64,
    decode_tokens_per_s: f64,
    dispatches_per_token: f64,
    submits_per_token: f64,
    readback_bytes_per_token: f64,
    peak_rss_bytes: Option<u64>,
    device_bytes: u64,
    device: String,
    adapter: String,
    kv: &'static str,
    activations: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    activation_times: Option<ChosenJson>,
    prompt_tokens: u32,
    tokens: u32,
    depth: u32,
    repeat: u32,
}

pub fn bench(args: &BenchArgs) -> Result<ExitCode> {
    let mut model = args.model.load(false)?;
    let options = BenchOptions {
        prompt_tokens: args.prompt_tokens as usize,
        tokens: args.tokens as usize,
        depth: args.depth as usize,
        repeat: args.repeat as usize,
    };
    if args.turns {
        return turns(&mut model, &options);
    }
    if args.profile {
        let trace = args.trace.as_deref().map(|path| (path, args.force));
        let show = Show { trace, json: args.json };
        return time_kernels(&mut model, &options, &args.model, &show);
    }
    let r = measure(&mut model.engine, &options)?;
    let info = model.engine.info();
    let m = Measured {
        prefill_tokens_per_s: r.prefill_tokens_per_s,
        decode_tokens_per_s: r.decode_tokens_per_s,
        dispatches_per_token: r.dispatches_per_token,
        submits_per_token: r.submits_per_token,
        readback_bytes_per_token: r.readback_bytes_per_token,
        peak_rss_bytes: peak_rss_bytes(),
        device_bytes: r.device_bytes,
        device: info.kind,
        adapter: info.adapter,
        kv: model.kv.name(),
        activations: model.activations.to_string(),
        activation_times: model.chosen.as_ref().map(ChosenJson::from),
        prompt_tokens: args.prompt_tokens,
        tokens: args.tokens,
        depth: args.depth,
        repeat: args.repeat,
    };
    if args.json {
        print_json(&m)?;
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = model.chosen.as_ref().map_or(String::new(), |c| format!("layers    {c}\n"));
    let peak = m.peak_rss_bytes.map_or("unknown".into(), |n| format!("{:.1} MB", n as f64 / 1e6));
    print_text(&format!(
        "{} ({}), kv {}, activations {}\n{chosen}\
         prefill   {:>10.1} tokens/s over {} tokens at depth {}\n\
         decode    {:>10.1} tokens/s over {} tokens\n\
         a token   {} dispatches, {} submits, {} bytes read back\n\
         memory    {:.1} MB of buffers, {peak} resident at most\n",
        m.device,
        m.adapter,
        m.kv,
        m.activations,
        m.prefill_tokens_per_s,
        m.prompt_tokens,
        m.depth,
        m.decode_tokens_per_s,
        m.tokens,
        m.dispatches_per_token,
        m.submits_per_token,
        m.readback_bytes_per_token,
        m.device_bytes as f64 / 1e6,
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints one measurement for each line read, so that another program can be measured in between.
fn turns(model: &mut Model, options: &BenchOptions) -> Result<ExitCode> {
    let (kv, activations) = (model.kv.name(), model.activations.to_string());
    let info = model.engine.info();
    let mut turns = Turns::new(&mut model.engine, options)?;
    print_json(&json!({
        "ready": true, "device": info.kind, "adapter": info.adapter, "kv": kv, "activations": activations,
        "peak_rss_bytes": peak_rss_bytes(),
    }))?;
    for line in std::io::stdin().lines() {
        let line = line.map_err(|e| Error::new(Code::Io, format!("stdin cannot be read: {e}")))?;
        let time = match line.trim() {
            "prefill" => turns.prefill()?,
            "decode" => turns.decode()?,
            other => {
                let what = format!("{other:?} is no turn of a bench");
                return Err(Error::usage(what).hint("write `prefill` or `decode`"));
            }
        };
        print_json(&json!({ "seconds": time.as_secs_f64(), "peak_rss_bytes": peak_rss_bytes() }))?;
    }
    Ok(ExitCode::SUCCESS)
}
