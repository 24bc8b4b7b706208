//! `rlx bench --profile`: kernel times.

use super::options::ModelArgs;
use super::{print_json, print_text};
use crate::load::Model;
use crate::new_file::NewFile;
use crate::tools::bench::BenchOptions;
use crate::tools::kernel_times::{DecoderPhase, Kind, Launch, kernel_times, kinds, spans, trace};
use rlx_core::Result;
use rlx_core::gguf::Sink;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

/// How kernel times are shown.
pub struct Show<'a> {
    /// A file for the trace, and whether it may be replaced.
    pub trace: Option<(&'a Path, bool)>,
    /// One line of JSON instead of tables.
    pub json: bool,
}

pub fn time_kernels(
    model: &mut Model,
    options: &BenchOptions,
    args: &ModelArgs,
    show: &Show<'_>,
) -> Result<ExitCode> {
    let launches = kernel_times(&mut model.engine, options)?;
    let copied = match args.row()?.copy_rate {
        Some(rate) => rate(&args.open_options())?,
        None => f64::INFINITY,
    };
    let adapter = model.engine.info().adapter;
    if let Some((path, force)) = show.trace {
        write(path, &trace(&launches, &adapter), force)?;
    }
    let kinds = kinds(&launches);
    if show.json {
        let phase = |phase: DecoderPhase, per: usize| {
            let (ns, submissions) = spans(&launches, phase);
            let rows: Vec<Value> = kinds
                .iter()
                .filter(|k| k.phase == phase)
                .map(|k| json(k, submissions, copied))
                .collect();
            json!({ "submissions": submissions, "us": us(ns, submissions), "tokens": per, "kernels": rows })
        };
        print_json(&json!({
            "adapter": adapter, "kv": model.kv.name(), "activations": model.activations.to_string(),
            "depth": options.depth, "copy_gb_per_s": copied / 1e9,
            "prefill": phase(DecoderPhase::Prefill, options.prompt_tokens),
            "decode": phase(DecoderPhase::Decode, 1),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{adapter}, copies at {:.1} GB/s\n", copied / 1e9);
    for phase in [DecoderPhase::Prefill, DecoderPhase::Decode] {
        text += &table(&launches, &kinds, phase, options, copied);
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Microseconds of one of `n`.
fn us(ns: u64, n: usize) -> f64 {
    ns as f64 / 1e3 / n.max(1) as f64
}

/// The time that copying the kernel's bytes would take, divided by its measured time.
fn floor_share(kind: &Kind, copied: f64) -> f64 {
    let bytes = (kind.work.read + kind.work.written) as f64;
    if kind.ns == 0 { 0.0 } else { bytes / copied / (kind.ns as f64 / 1e9) }
}

fn json(k: &Kind, submissions: usize, copied: f64) -> Value {
    let n = submissions.max(1) as u64;
    json!({
        "step": k.role, "kernel": k.kernel, "launches": k.launches as u64 / n, "us": us(k.ns, submissions),
        "read_bytes": k.work.read / n, "written_bytes": k.work.written / n,
        "operations": k.work.operations / n, "share_of_floor": floor_share(k, copied),
    })
}

/// A table of an average submission, one line per kind of launch.
fn table(
    launches: &[Launch],
    kinds: &[Kind],
    phase: DecoderPhase,
    options: &BenchOptions,
    copied: f64,
) -> String {
    let (span, n) = spans(launches, phase);
    let kinds: Vec<&Kind> = kinds.iter().filter(|k| k.phase == phase).collect();
    let all: u64 = kinds.iter().map(|k| k.ns).sum();
    let count = kinds.iter().map(|k| k.launches).sum::<usize>() / n.max(1);
    let what = match phase {
        DecoderPhase::Prefill => format!(
            "a submission of {} prompt tokens at depth {}",
            options.prompt_tokens, options.depth
        ),
        DecoderPhase::Decode => format!(
            "a token, of {} behind {}",
            options.tokens,
            options.depth + options.prompt_tokens
        ),
    };
    let mut text = format!(
        "\n{}: {what}, {n} timed\n{:<18} {:<26} {:>5} {:>10} {:>6} {:>9} {:>8} {:>8} {:>7}\n",
        phase.name(),
        "step",
        "kernel",
        "times",
        "us",
        "share",
        "MB",
        "GB/s",
        "TOP/s",
        "floor",
    );
    for k in kinds {
        let seconds = k.ns as f64 / 1e9;
        let bytes = (k.work.read + k.work.written) as f64;
        let rate = |amount: f64, unit: f64| if k.ns == 0 { 0.0 } else { amount / seconds / unit };
        text += &format!(
            "{:<18} {:<26} {:>5} {:>10.1} {:>5.1}% {:>9.3} {:>8.1} {:>8.2} {:>6.1}%\n",
            k.role,
            k.kernel,
            k.launches / n.max(1),
            us(k.ns, n),
            100.0 * k.ns as f64 / all.max(1) as f64,
            bytes / n.max(1) as f64 / 1e6,
            rate(bytes, 1e9),
            rate(k.work.operations as f64, 1e12),
            100.0 * floor_share(k, copied),
        );
    }
    text += &format!(
        "{:<18} {:<26} {:>5} {:>10.1}         between first and last {:.1} us\n",
        "all",
        "",
        count,
        us(all, n),
        us(span, n),
    );
    text
}

fn write(path: &Path, trace: &Value, force: bool) -> Result<()> {
    let text = trace.to_string();
    let mut file = NewFile::create(path, text.len() as u64, force)?;
    file.put(text.as_bytes())?;
    file.commit()
}
