//! `rlx inspect`: a model's files, or a program of it at any stage. Only headers are read.

mod entry;
mod file;
mod program;

use self::program::DecoderProgram;
use super::graph::{files, network};
use super::options::{Kv, profile, program_activations};
use super::passes::{PassArgs, Report};
use crate::devices;
use crate::files::ModelSource;
use crate::network::CheckpointFiles;
use clap::{Args, ValueEnum};
use rlx_core::ir::lir::Program;
use rlx_core::models::{self, Task};
use rlx_core::plan::{WeightPlan, picture};
use rlx_core::target::ProgramActivations;
use rlx_core::{Code, Error, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// Metadata and tensors
    File,
    /// Blocks, as the model's author wrote them
    Hir,
    /// Operators, after every pass
    Mir,
    /// Steps over addresses
    Lir,
    /// Fusions that were made, those that nearly were, and what they gain
    Fusion,
    /// How the target runs each operator, and why
    Dispatch,
}

#[derive(Args)]
pub struct InspectArgs {
    /// A model: a GGUF file, one of its shards, or a folder with config.json and model.safetensors; or a text
    /// file with a graph [default: the model inside this binary]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// What to show
    #[arg(long, value_enum, default_value = "file")]
    stage: Stage,
    /// Which program of a language model to show [default: decode]
    #[arg(long, value_enum)]
    phase: Option<DecoderProgram>,
    /// Which entry to show, as `rlx graph` runs it: `encode` of an encoder, `logits` of a language model [default:
    /// the only one; of a language model the program of --phase]
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// A size of the entry's inputs; may be given several times [default: BATCH=1, and for SEQ 128 or as many as the
    /// model takes]
    #[arg(long = "size", value_name = "NAME=N")]
    sizes: Vec<String>,
    /// The weights for a graph's text: a .safetensors or .gguf file
    #[arg(long, value_name = "FILE", requires = "path")]
    weights: Option<PathBuf>,
    /// Target: a device's name, as --device has them, or one with limits, such as `webgpu binding=134217728`
    #[arg(long, value_name = "T", default_value = devices::CPU)]
    target: String,
    /// Number of positions in a language model's caches [default: as the model was trained, at most 4096]
    #[arg(long, value_name = "N")]
    context: Option<u64>,
    /// Element type of the caches [default: the target device's; of an entry f32]
    #[arg(long, value_name = "TYPE")]
    kv: Option<Kv>,
    /// Activation type in matmuls of packed weights [default: the target device's; of an entry f32]
    #[arg(long, value_name = "TYPE", value_parser = program_activations)]
    activations: Option<ProgramActivations>,
    /// Compile profile: a TOML file as in profiles/ [default: the presets of the model's family]
    #[arg(long, value_name = "FILE")]
    compile_profile: Option<PathBuf>,
    /// Draw the program's arena as an SVG: time to the right, bytes upwards
    #[arg(long, value_name = "SVG")]
    plan: Option<PathBuf>,
    #[command(flatten)]
    passes: PassArgs,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub fn inspect(args: &InspectArgs) -> Result<ExitCode> {
    let (files, is_model) = match &args.path {
        Some(path) => files(path, args.weights.as_deref(), args.context)?,
        None => (Some(CheckpointFiles::Gguf(ModelSource::embedded()?)), true),
    };
    // Checked first, so that `--stage file` reports wrong values too, although it needs neither.
    let target = devices::target_of(&args.target)?;
    let row = devices::find(&target.name)?;
    let profile = profile(args.compile_profile.as_deref(), row)?;
    let only_file = args.stage == Stage::File && args.plan.is_none() && !args.passes.any();
    let model = files.as_ref().filter(|_| is_model);
    if let (true, Some(files)) = (only_file, model) {
        file::print(files, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (None, Some(files)) = (&args.entry, model) {
        let checkpoint = files.checkpoint();
        if models::open(&checkpoint)?.facts().task == Task::Generate {
            program::inspect(args, &checkpoint, row, &target, profile)?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    // The path is read only where it is a graph's text.
    let path = args.path.as_deref().unwrap_or(Path::new(""));
    let (network, facts) = network(path, files.as_ref(), is_model, args.context)?;
    if only_file {
        return Err(Error::usage("a graph's text has no metadata and no tensors of its own")
            .hint("choose a stage: --stage hir, mir, lir, fusion or dispatch"));
    }
    entry::inspect(args, &network, facts.as_ref(), row, &target, profile)?;
    Ok(ExitCode::SUCCESS)
}

/// Which report of a compilation is to be printed; `None` if neither a report nor passes are asked for.
fn report(args: &InspectArgs) -> Option<Report> {
    match args.stage {
        Stage::Fusion => Some(Report::Fusion),
        Stage::Dispatch => Some(Report::Dispatch),
        _ => args.passes.any().then_some(Report::None),
    }
}

/// Writes the picture of a program's arena.
fn draw(program: &Program, path: &Path) -> Result<()> {
    std::fs::write(path, picture(program)?).map_err(|e| {
        Error::new(Code::Io, format!("the picture cannot be written: {e}"))
            .at(path.display().to_string())
    })
}

/// What `--stage lir --json` says of every program.
#[derive(Serialize)]
struct Numbers {
    nodes: usize,
    steps: usize,
    activation_bytes: u64,
    largest_live_bytes: u64,
    unshared_bytes: u64,
    /// Of the whole model: all programs share the weights.
    weight_bytes: u64,
    readback_bytes: u64,
    fingerprint: String,
}

impl Numbers {
    fn of(program: &Program, plan: &WeightPlan) -> Self {
        Numbers {
            nodes: program.graph.nodes.len(),
            steps: program.steps.len(),
            activation_bytes: program.arena_bytes,
            largest_live_bytes: program.largest_live_bytes,
            unshared_bytes: program.unshared_bytes,
            weight_bytes: plan.bytes(),
            readback_bytes: program.readback_bytes(),
            fingerprint: format!("{:016x}", program.fingerprint),
        }
    }
}
