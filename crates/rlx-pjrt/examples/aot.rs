//! Compiles every program of a model for TPUs that need not be there, and prints XLA's memory beside our plan's:
//!
//! ```sh
//! node scripts/plugins.mjs libtpu
//! cargo run --release -p rlx-pjrt --example aot -- target/plugins/libtpu.so model.gguf v5e:2x2 v4:2x2x1 v6e:2x2
//! ```
//!
//! `--context N`, `--chunk N` and `--kv TYPE` are those of the command line, `--program NAME` compiles one alone. Of a
//! file only the header is read.

use rlx_core::gguf::{HeaderReader, ModelFiles, Progress};
use rlx_core::plan::closed;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::types::DType;
use rlx_core::{Error, Result};
use rlx_pjrt::lower::lower;
use rlx_pjrt::pjrt::Topology;
use std::io::Read;
use std::time::Instant;

/// What libtpu asks of its environment, so that it does not wait for the metadata server of a cloud.
const SETTINGS: [(&str, &str); 6] = [
    ("TPU_SKIP_MDS_QUERY", "1"),
    ("TPU_WORKER_HOSTNAMES", "localhost"),
    ("TPU_ACCELERATOR_TYPE", "v5litepod-4"),
    ("TPU_WORKER_ID", "0"),
    ("TPU_CHIPS_PER_HOST_BOUNDS", "2,2,1"),
    ("TPU_HOST_BOUNDS", "1,1,1"),
];

fn main() {
    if let Err(e) = run() {
        eprintln!("aot: {e}");
        std::process::exit(e.code.exit());
    }
}

fn run() -> Result<()> {
    if SETTINGS.iter().any(|(name, _)| std::env::var_os(name).is_none()) {
        return again();
    }
    let usage =
        || Error::usage("aot PLUGIN MODEL TOPOLOGY … [--context N] [--chunk N] [--kv TYPE]");
    let mut options = ModelOptions::by(&rlx_pjrt::target().policy);
    let mut only = None;
    let (mut plain, mut words) = (Vec::new(), std::env::args().skip(1));
    while let Some(word) = words.next() {
        let mut number =
            || words.next().and_then(|n| n.parse().ok()).filter(|&n: &u64| n > 0).ok_or_else(usage);
        match word.as_str() {
            "--context" => options.context = Some(number()?),
            "--chunk" => {
                options = ModelOptions { context: options.context, ..ModelOptions::chat(number()?) }
            }
            "--program" => only = Some(words.next().ok_or_else(usage)?),
            "--kv" => {
                let kv = words.next().and_then(|name| DType::from_name(&name));
                options.compile.kv = kv.ok_or_else(usage)?;
            }
            _ => plain.push(word),
        }
    }
    let [plugin, model, topologies @ ..] = plain.as_slice() else { return Err(usage()) };
    let files = ModelFiles::new(vec![header(model)?])?;
    let compiled = CompiledModel::from_gguf(&files, &rlx_pjrt::target(), &options)?;
    for name in topologies {
        let topology = Topology::new(plugin.as_ref(), name)?;
        println!(
            "{name}, bytes: XLA's are temporaries and all of a run at once, the plan's arena and what is live in it"
        );
        println!(
            "{:<14} {:>8} {:>10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}",
            "program",
            "seconds",
            "text",
            "code",
            "arguments",
            "aliased",
            "temporary",
            "peak",
            "plan arena",
            "plan live"
        );
        for program in
            compiled.programs.iter().filter(|p| only.as_ref().is_none_or(|o| *o == p.name))
        {
            let text = lower(&closed(program)?.graph)?.text;
            let start = Instant::now();
            let made = topology.compile(&text).map_err(|e| e.at(program.name.clone()))?;
            let seconds = start.elapsed().as_secs_f64();
            let memory = made.memory()?;
            println!(
                "{:<14} {seconds:>8.2} {:>10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}",
                program.name,
                text.len(),
                memory.code.max(made.code_bytes()?),
                memory.arguments,
                memory.aliases,
                memory.temporaries,
                memory.peak,
                program.arena_bytes,
                program.largest_live_bytes
            );
        }
    }
    Ok(())
}

/// Runs this program with libtpu's settings: a process changes its own environment safely only before others read it.
fn again() -> Result<()> {
    let failed =
        |e: std::io::Error| Error::internal(format!("the program does not start itself: {e}"));
    let mut command = std::process::Command::new(std::env::current_exe().map_err(failed)?);
    for (name, value) in SETTINGS {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    let status = command.args(std::env::args_os().skip(1)).status().map_err(failed)?;
    std::process::exit(status.code().unwrap_or(1))
}

/// A file's header.
fn header(path: &str) -> Result<rlx_core::gguf::Header> {
    let failed = |e: std::io::Error| Error::new(rlx_core::Code::Io, e.to_string()).at(path);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut reader = HeaderReader::new(path, Some(bytes));
    let mut piece = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut piece).map_err(failed)?;
        if n == 0 {
            reader.eof()?;
            break;
        }
        if reader.push(&piece[..n])? == Progress::Done {
            break;
        }
    }
    reader.into_header().ok_or_else(|| Error::bad_file("the header is not whole").at(path))
}
