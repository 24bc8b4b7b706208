//! `rlx inspect`: a model's file, or its program at any stage. Only headers are read.

use super::options::{Act, Kv, profile};
use super::passes::{PassArgs, Report, parsed, show};
use super::{print_json, print_text};
use crate::devices;
use crate::files::ModelSource;
use crate::load::LoadOptions;
use clap::{Args, ValueEnum};
use rlx_core::gguf::{Array, Value};
use rlx_core::lower::lower;
use rlx_core::plan::picture;
use rlx_core::runtime::memory::Fit;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Code, Error, Result};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write;
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

/// A program of a decoder.
#[derive(Clone, Copy, ValueEnum)]
enum DecoderProgram {
    /// The last chunk of a prompt, with the output head
    Prefill,
    /// One token
    Decode,
}

impl DecoderProgram {
    fn program(self) -> &'static str {
        match self {
            Self::Prefill => "prefill_last",
            Self::Decode => "decode",
        }
    }
}

#[derive(Args)]
pub struct InspectArgs {
    /// A GGUF file, or one shard of a model [default: the model inside this binary]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// What to show
    #[arg(long, value_enum, default_value = "file")]
    stage: Stage,
    /// Which program to show
    #[arg(long, value_enum, default_value = "decode")]
    phase: DecoderProgram,
    /// Target: reference, cpu, webgpu, or one with limits, such as `webgpu binding=134217728`
    #[arg(long, value_name = "T", default_value = devices::DEFAULT)]
    target: String,
    /// Number of positions in the caches [default: as the model was trained, at most 4096]
    #[arg(long, value_name = "N")]
    context: Option<u64>,
    /// Element type of the caches [default: the target device's]
    #[arg(long, value_name = "TYPE")]
    kv: Option<Kv>,
    /// Activation type in matmuls of packed weights [default: the target device's]
    #[arg(long, value_name = "TYPE")]
    activations: Option<Act>,
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
    let source = match &args.path {
        Some(path) => ModelSource::open(path)?,
        None => ModelSource::embedded()?,
    };
    // Checked first, so that `--stage file` reports wrong values too, although it needs neither.
    let target = devices::target_of(&args.target)?;
    let row = devices::find(&target.name)?;
    let profile = profile(args.compile_profile.as_deref(), row)?;
    if args.stage == Stage::File && args.plan.is_none() && !args.passes.any() {
        if args.json {
            print_json(&file_json(&source))?;
        } else {
            print_text(&file_text(&source))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let load = LoadOptions {
        context: args.context,
        kv: args.kv.map(Kv::dtype),
        activations: args.activations.map(Act::activations),
        profile,
        ..LoadOptions::default()
    };
    let options = load.model_options(row, &target);
    let compiled = CompiledModel::from_gguf(&source.files, &target, &options)?;
    if let Some(path) = &args.plan {
        draw(args, &compiled, path)?;
    }
    if args.stage != Stage::File || args.passes.any() {
        stage(args, &compiled, &target, &options)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the picture of the program's arena.
fn draw(args: &InspectArgs, compiled: &CompiledModel, path: &Path) -> Result<()> {
    let name = args.phase.program();
    let at = compiled.program(name);
    let program = at.and_then(|at| compiled.programs.get(at));
    let program =
        program.ok_or_else(|| Error::internal(format!("the model has no program {name}")))?;
    std::fs::write(path, picture(program)?).map_err(|e| {
        Error::new(Code::Io, format!("the picture cannot be written: {e}"))
            .at(path.display().to_string())
    })
}

fn stage(
    args: &InspectArgs,
    compiled: &CompiledModel,
    target: &Target,
    options: &ModelOptions,
) -> Result<()> {
    let name = args.phase.program();
    let at = compiled
        .program(name)
        .ok_or_else(|| Error::internal(format!("the model has no program {name}")))?;
    let (spec, program) = (&compiled.specs[at], &compiled.programs[at]);
    let asked = &compiled.options[at];
    let report = match args.stage {
        Stage::Fusion => Report::Fusion,
        Stage::Dispatch => Report::Dispatch,
        _ => Report::None,
    };
    if report != Report::None || args.passes.any() {
        return show(&args.passes, report, args.json, &compiled.module, spec, target, asked);
    }
    let fit = Fit::of(compiled, target);
    match args.stage {
        Stage::Hir if args.json => print_json(&json!({
            "stage": "hir",
            "name": compiled.module.name,
            "blocks": compiled.module.nodes.len(),
            "context": compiled.module.context,
            "vocab": compiled.module.vocab,
            "text": compiled.module.to_string(),
        })),
        Stage::Mir if args.json => {
            let policy = asked.fusion_policy.unwrap_or(compiled.module.fusion_policy);
            let lowered = lower(&compiled.module.clone().with_policy(policy), spec, asked.kv)?;
            print_json(&json!({
                "stage": "mir",
                "program": name,
                "nodes_lowered": lowered.nodes.len(),
                "nodes": program.graph.nodes.len(),
                "fusion": parsed(&compiled.reports[at].json()),
                "text": program.graph.to_string(),
            }))
        }
        Stage::Hir => print_text(&compiled.module.to_string()),
        Stage::Mir => print_text(&program.graph.to_string()),
        Stage::Lir if args.json => print_json(&Lir {
            stage: "lir",
            program: name,
            target: target.describe(),
            nodes: program.graph.nodes.len(),
            steps: program.steps.len(),
            activation_bytes: program.arena_bytes,
            largest_live_bytes: program.largest_live_bytes,
            unshared_bytes: program.unshared_bytes,
            weight_bytes: compiled.plan.bytes(),
            state_bytes: compiled.state_bytes(),
            fit_bytes: fit.total(),
            readback_bytes: program.readback_bytes(),
            context: compiled.context,
            chunk: compiled.chunk,
            kv: options.compile.kv.name(),
            activations: options.compile.activations.name(),
            fusion: parsed(&compiled.reports[at].json()),
            fingerprint: format!("{:016x}", program.fingerprint),
        }),
        Stage::Lir | Stage::File | Stage::Fusion | Stage::Dispatch => {
            let mut text = format!(
                "// {}\n// needs {}\n// weights {} bytes in {} buffers, states {} bytes, fingerprint {:016x}\n",
                target.describe(),
                fit.describe(),
                compiled.plan.bytes(),
                compiled.plan.buffers.len(),
                compiled.state_bytes(),
                program.fingerprint
            );
            if let Err(e) = fit.bound() {
                text += &format!("// does not fit: {}\n", e.hint);
            }
            text += &format!("// options {}\n", asked.describe());
            text += &program.to_string();
            print_text(&text)
        }
    }
}

/// What `--stage lir --json` prints.
#[derive(Serialize)]
struct Lir {
    stage: &'static str,
    program: &'static str,
    target: String,
    nodes: usize,
    steps: usize,
    activation_bytes: u64,
    largest_live_bytes: u64,
    unshared_bytes: u64,
    /// Of the whole model: all programs share the weights.
    weight_bytes: u64,
    state_bytes: u64,
    /// Most memory that loading takes: weights, states, activations, inputs and staging.
    fit_bytes: u64,
    readback_bytes: u64,
    context: u64,
    chunk: u64,
    kv: &'static str,
    activations: &'static str,
    fusion: Json,
    fingerprint: String,
}

/// How many elements of a metadata array the text shows.
const SHOWN: usize = 8;

/// A metadata value as JSON. A long array is only its length and type.
fn value_json(value: &Value) -> Json {
    if let Some(n) = value.as_integer() {
        // Integers of GGUF are at most 64 bits wide.
        return u64::try_from(n).map_or_else(|_| json!(n as i64), |n| json!(n));
    }
    match value {
        Value::F32(v) => json!(v),
        Value::F64(v) => json!(v),
        Value::Bool(v) => json!(v),
        Value::String(v) => json!(v),
        Value::Array(Array::Strings(v)) if v.len() <= SHOWN => json!(v.iter().collect::<Vec<_>>()),
        Value::Array(v) => json!({ "type": value.type_name(), "length": v.len() }),
        other => json!(other.type_name()),
    }
}

struct TypeTotal {
    tensors: usize,
    bytes: u64,
}

fn by_type(source: &ModelSource) -> BTreeMap<&'static str, TypeTotal> {
    let mut types = BTreeMap::new();
    for (_, t) in source.files.tensors.values() {
        let row: &mut TypeTotal =
            types.entry(t.dtype.name()).or_insert(TypeTotal { tensors: 0, bytes: 0 });
        row.tensors += 1;
        row.bytes += t.bytes;
    }
    types
}

fn file_json(source: &ModelSource) -> Json {
    let files = &source.files;
    let metadata: Map<String, Json> =
        files.metadata.iter().map(|(k, e)| (k.to_owned(), value_json(&e.value))).collect();
    let tensors: Vec<Json> = files
        .tensors
        .values()
        .map(|(file, t)| {
            json!({
                "name": t.name, "type": t.dtype.name(), "shape": t.dims,
                "file": file, "offset": t.offset, "bytes": t.bytes,
            })
        })
        .collect();
    let types: Map<String, Json> = by_type(source)
        .into_iter()
        .map(|(name, t)| (name.to_owned(), json!({ "tensors": t.tensors, "bytes": t.bytes })))
        .collect();
    json!({
        "stage": "file",
        "files": files.files,
        "order": files.order,
        "file_bytes": source.bytes(),
        "tensor_bytes": files.tensor_bytes(),
        "metadata": metadata,
        "tensors": tensors,
        "types": types,
    })
}

fn file_text(source: &ModelSource) -> String {
    let files = &source.files;
    let mut out = String::new();
    // Writing to a String never fails.
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    for &i in &files.order {
        let bytes = (*source.maps[i]).as_ref().len();
        line(format!("{} ({bytes} bytes)", files.files[i]));
    }
    line(String::new());
    for (key, entry) in files.metadata.iter() {
        let text = match value_json(&entry.value) {
            Json::Object(o) => format!("{} of {}", entry.value.type_name(), o["length"]),
            Json::String(s) if s.chars().count() > 60 => {
                format!("{:?}…", s.chars().take(60).collect::<String>())
            }
            other => other.to_string(),
        };
        line(format!("{key} = {text}"));
    }
    line(String::new());
    for (file, t) in files.tensors.values() {
        let ty = Type::tensor(t.dtype, rlx_core::types::Shape::of(&t.dims));
        line(format!("{:<32} {ty} at {} of file {file}, {} bytes", t.name, t.offset, t.bytes));
    }
    line(String::new());
    for (name, t) in by_type(source) {
        line(format!("{name:<6} {:>4} tensors {:>12} bytes", t.tensors, t.bytes));
    }
    line(format!("all    {:>4} tensors {:>12} bytes", files.tensors.len(), files.tensor_bytes()));
    out
}
