//! Compiles every program of a network for TPUs that need not be there, and prints XLA's memory beside our plan's:
//!
//! ```sh
//! node scripts/plugins.mjs libtpu
//! cargo run --release -p rlx-native --features aot --example aot -- \
//!     target/plugins/libtpu.so model.gguf v5e:2x2 v4:2x2x1 v6e:2x2
//! ```
//!
//! The network is a GGUF file, a transformers folder, or `shape:NAME/FORMAT`, a model as `rlx synth` makes it, of which
//! only the header is written. `--context N`, `--chunk N` and `--kv TYPE` are those of the command line,
//! `--program NAME` compiles one alone, `--size NAME=N` sets a size of an encoder's inputs, `--json` prints
//! one line. A program that is refused is told, and the others go on; the exit code is 3 then.

use rlx_core::gguf::{HeaderReader, ModelFiles};
use rlx_core::ir::GraphModule;
use rlx_core::ir::lir::Program;
use rlx_core::models::{self, Checkpoint, Task};
use rlx_core::passes::Watch;
use rlx_core::plan::closed;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::session::{Preview, network};
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::{Binding, DType};
use rlx_core::{Error, Result};
use rlx_native::network::CheckpointFiles;
use rlx_native::tools::mix::Quant;
use rlx_native::tools::synth::{Shape, header};
use rlx_pjrt::lower::lower;
use rlx_pjrt::pjrt::Topology;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// What libtpu asks of its environment, so that it does not wait for the metadata server of a cloud.
/// Several of its processes may run at once, where nobody has a TPU.
const SETTINGS: [(&str, &str); 7] = [
    ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
    ("TPU_SKIP_MDS_QUERY", "1"),
    ("TPU_WORKER_HOSTNAMES", "localhost"),
    ("TPU_ACCELERATOR_TYPE", "v5litepod-4"),
    ("TPU_WORKER_ID", "0"),
    ("TPU_CHIPS_PER_HOST_BOUNDS", "2,2,1"),
    ("TPU_HOST_BOUNDS", "1,1,1"),
];

/// Sizes of an encoder's inputs, where none is given; one of any other name is 1. Texts have as many tokens, or as many
/// as the model takes.
const SIZES: [(&str, u64); 5] =
    [("BATCH", 1), (SEQ, 128), ("HEIGHT", 56), ("WIDTH", 56), ("SAMPLES", 16_000)];
const SEQ: &str = "SEQ";

struct Asked {
    options: ModelOptions,
    only: Option<String>,
    sizes: Binding,
    json: bool,
    plain: Vec<String>,
}

/// What compiling a program came to; bytes, but for the seconds.
#[derive(Default, Serialize)]
struct Made {
    topology: String,
    program: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    seconds: f64,
    text: u64,
    code: u64,
    arguments: u64,
    aliased: u64,
    temporaries: u64,
    peak: u64,
    plan_arena: u64,
    plan_live: u64,
}

#[derive(Serialize)]
struct All<'a> {
    model: &'a str,
    family: &'a str,
    context: u64,
    programs: Vec<Made>,
}

fn main() {
    match run() {
        Ok(code) => std::process::exit(code),
        Err(e) => {
            eprintln!("error: {e}");
            std::process::exit(e.code.exit());
        }
    }
}

fn usage() -> Error {
    Error::usage(
        "aot PLUGIN MODEL TOPOLOGY … [--context N] [--chunk N] [--kv TYPE] [--program NAME] [--size NAME=N]",
    )
}

fn asked() -> Result<Asked> {
    let options = ModelOptions::by(&rlx_pjrt::target().policy);
    let mut asked =
        Asked { options, only: None, sizes: Binding::new(), json: false, plain: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number =
            || words.next().and_then(|n| n.parse().ok()).filter(|&n: &u64| n > 0).ok_or_else(usage);
        match word.as_str() {
            "--context" => asked.options.context = Some(number()?),
            "--chunk" => {
                let context = asked.options.context;
                asked.options = ModelOptions { context, ..ModelOptions::chat(number()?) };
            }
            "--program" => asked.only = Some(words.next().ok_or_else(usage)?),
            "--kv" => {
                let kv = words.next().and_then(|name| DType::from_name(&name));
                asked.options.compile.kv = kv.ok_or_else(usage)?;
            }
            "--size" => {
                let size = words.next().ok_or_else(usage)?;
                let (name, n) = size.split_once('=').ok_or_else(usage)?;
                asked.sizes.insert(name.into(), n.parse().map_err(|_| usage())?);
            }
            "--json" => asked.json = true,
            _ => asked.plain.push(word),
        }
    }
    Ok(asked)
}

/// The family, the context and the programs of a network.
fn programs(model: &str, asked: &Asked) -> Result<(String, u64, Vec<Program>)> {
    let target = rlx_pjrt::target();
    if let Some(shape) = model.strip_prefix("shape:") {
        let (name, quant) = shape.split_once('/').ok_or_else(usage)?;
        let shape = Shape::find(name).ok_or_else(usage)?;
        let writer = header(shape, Quant::parse(quant, false)?)?;
        let mut reader = HeaderReader::new(model, Some(writer.file_bytes()));
        reader.push(writer.header())?;
        let whole = reader.into_header();
        let whole = whole.ok_or_else(|| Error::internal("half a header was written"))?;
        return language(&Checkpoint::gguf(&ModelFiles::new(vec![whole])?), &target, asked);
    }
    let files = CheckpointFiles::open(Path::new(model))?;
    let checkpoint = files.checkpoint();
    let facts = models::open(&checkpoint)?.facts();
    if facts.task == Task::Generate {
        return language(&checkpoint, &target, asked);
    }
    let (entries, facts) = network::entries(&checkpoint, None)?;
    let mut programs = Vec::new();
    for entry in entries {
        let preview = Preview::new(&entry, &target, &CompileOptions::default())?;
        let size = |name: &str| {
            let usual = SIZES.iter().find(|s| s.0 == name).map_or(1, |s| s.1);
            let usual = if name == SEQ { usual.min(facts.context.max(1)) } else { usual };
            asked.sizes.get(name).copied().unwrap_or(usual)
        };
        let symbols = preview.graph().symbols();
        let sizes: Binding = symbols.into_iter().map(|s| (s.clone(), size(&s))).collect();
        let compiled = preview.compile(&sizes, &mut Watch::default())?;
        let GraphModule::Lir(mut program) = compiled.module else {
            return Err(Error::internal("the compiler stopped before the program"));
        };
        program.name = entry.name.clone();
        preview.place(&mut program, Some(&checkpoint))?;
        programs.push(*program);
    }
    Ok((facts.family.to_owned(), 0, programs))
}

fn language(
    checkpoint: &Checkpoint<'_>,
    target: &Target,
    asked: &Asked,
) -> Result<(String, u64, Vec<Program>)> {
    let compiled = CompiledModel::new(checkpoint, target, &asked.options)?;
    let family = models::open(checkpoint)?.facts().family.to_owned();
    Ok((family, compiled.context, compiled.programs))
}

fn compiled(topology: &Topology, program: &Program) -> Result<Made> {
    let text = lower(&closed(program)?.graph)?.text;
    let start = Instant::now();
    let made = topology.compile(&text)?;
    let seconds = start.elapsed().as_secs_f64();
    let memory = made.memory()?;
    Ok(Made {
        seconds,
        text: text.len() as u64,
        code: memory.code.max(made.code_bytes()?) as u64,
        arguments: memory.arguments as u64,
        aliased: memory.aliases as u64,
        temporaries: memory.temporaries as u64,
        peak: memory.peak as u64,
        plan_arena: program.arena_bytes,
        plan_live: program.largest_live_bytes,
        ..Made::default()
    })
}

fn run() -> Result<i32> {
    if SETTINGS.iter().any(|(name, _)| std::env::var_os(name).is_none()) {
        return again();
    }
    let asked = asked()?;
    let [plugin, model, topologies @ ..] = asked.plain.as_slice() else { return Err(usage()) };
    let (family, context, programs) = programs(model, &asked)?;
    let mut all = All { model, family: &family, context, programs: Vec::new() };
    for name in topologies {
        let topology = Topology::new(plugin.as_ref(), name)?;
        for program in programs.iter().filter(|p| asked.only.as_ref().is_none_or(|o| *o == p.name))
        {
            let mut made = compiled(&topology, program)
                .unwrap_or_else(|e| Made { refused: Some(e.what), ..Made::default() });
            (made.topology, made.program) = (name.clone(), program.name.clone());
            if !asked.json {
                show(&made, all.programs.is_empty());
            }
            all.programs.push(made);
        }
    }
    if asked.json {
        let text = serde_json::to_string(&all).map_err(|e| Error::internal(e.to_string()))?;
        println!("{text}");
    }
    let refused = all.programs.iter().find_map(|made| made.refused.as_ref());
    if let Some(why) = refused {
        eprintln!("error: {why}");
    }
    Ok(if refused.is_some() { 3 } else { 0 })
}

fn show(made: &Made, first: bool) {
    if first {
        println!(
            "XLA's bytes are temporaries and all of a run at once, the plan's its arena and what is live in it"
        );
        println!(
            "{:<10} {:<20} {:>8} {:>10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}",
            "topology",
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
    }
    if let Some(why) = &made.refused {
        println!("{:<10} {:<20} refused: {why}", made.topology, made.program);
        return;
    }
    println!(
        "{:<10} {:<20} {:>8.2} {:>10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}",
        made.topology,
        made.program,
        made.seconds,
        made.text,
        made.code,
        made.arguments,
        made.aliased,
        made.temporaries,
        made.peak,
        made.plan_arena,
        made.plan_live
    );
}

/// Runs this program with libtpu's settings: a process changes its own environment safely only before others read it.
fn again() -> Result<i32> {
    let failed =
        |e: std::io::Error| Error::internal(format!("the program does not start itself: {e}"));
    let mut command = std::process::Command::new(std::env::current_exe().map_err(failed)?);
    for (name, value) in SETTINGS {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    let status = command.args(std::env::args_os().skip(1)).status().map_err(failed)?;
    Ok(status.code().unwrap_or(1))
}
