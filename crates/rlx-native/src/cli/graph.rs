//! `rlx graph`: runs any network once, on any device.

use super::embed::write_file;
use super::options::{DeviceArgs, Floats};
use super::progress::ProgressLine;
use super::{print_json, print_text};
use crate::files::map;
use crate::network::{CheckpointFiles, Network, read_graph, run};
use crate::npy::Array;
use clap::Args;
use rlx_core::models::Facts;
use rlx_core::runtime::session::{Entry, Signature, Tensor, TensorRef};
use rlx_core::target::CompileOptions;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How many numbers of an output are printed.
const SHOWN: usize = 6;

#[derive(Args)]
pub struct GraphArgs {
    /// A text file with a graph (examples: tests/fixtures/graphs), or a model: a GGUF file, or a folder
    /// with config.json and model.safetensors
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// The entry to run [default: the only one]
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// The weights for a graph's text: a .safetensors or .gguf file
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The tensor of an input, from an .npy file; without any, the command lists the inputs
    #[arg(long = "input", value_name = "NAME=FILE")]
    inputs: Vec<String>,
    /// Write every output to this folder, as NAME.npy
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// With `--output`: replace existing files
    #[arg(long, requires = "output")]
    force: bool,
    /// Positions of a language model's caches: tokens of a text at most [default: 4096, or as many as the model takes]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    context: Option<u64>,
    /// Type of activations between operators; sums, inputs and outputs stay f32 [default: f32]
    #[arg(long, value_name = "TYPE")]
    precision: Option<Floats>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Named {
    name: String,
    r#type: String,
}

#[derive(Serialize)]
struct Listed<'a> {
    entry: &'a str,
    inputs: Vec<Named>,
    outputs: Vec<Named>,
}

#[derive(Serialize)]
struct Output {
    name: String,
    r#type: String,
    dims: Vec<u64>,
    /// The first numbers; null stands for NaN and infinity.
    first: Vec<f64>,
    /// Smallest, largest and mean number; floats only.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<[f64; 3]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

#[derive(Serialize)]
struct Ran<'a> {
    entry: &'a str,
    device: String,
    adapter: String,
    outputs: Vec<Output>,
}

/// A name and a file.
fn parts(text: &str) -> Result<(&str, &Path)> {
    let (name, file) = text.split_once('=').ok_or_else(|| {
        Error::usage(format!("--input {text} names no file")).hint("write --input NAME=FILE.npy")
    })?;
    Ok((name, Path::new(file)))
}

fn named(all: &[Signature]) -> Vec<Named> {
    all.iter().map(|s| Named { name: s.name.clone(), r#type: s.ty.to_string() }).collect()
}

/// The numbers of a tensor; `None` for an element type that this command cannot print.
fn numbers(t: &Tensor) -> Option<Vec<f64>> {
    let bytes = &t.bytes;
    let n = match t.dtype {
        DType::Scalar(s) => s.bytes(),
        DType::Block(_) => return None,
    };
    let one = |b: &[u8]| -> Option<f64> {
        Some(match t.dtype {
            DType::F64 => f64::from_le_bytes(b.try_into().ok()?),
            DType::F32 => f64::from(f32::from_le_bytes(b.try_into().ok()?)),
            DType::F16 => f64::from(half::f16::from_le_bytes(b.try_into().ok()?)),
            DType::BF16 => f64::from(half::bf16::from_le_bytes(b.try_into().ok()?)),
            DType::U32 => f64::from(u32::from_le_bytes(b.try_into().ok()?)),
            DType::I32 => f64::from(i32::from_le_bytes(b.try_into().ok()?)),
            _ if n == 1 => f64::from(b[0]),
            _ => return None,
        })
    };
    bytes.chunks_exact(n).map(one).collect()
}

fn output(t: &Tensor, file: Option<String>) -> Output {
    let numbers = numbers(t).unwrap_or_default();
    let range = (t.dtype.is_float() && !numbers.is_empty()).then(|| {
        let by = |f: fn(f64, f64) -> f64, from: f64| numbers.iter().copied().fold(from, f);
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        [by(f64::min, f64::INFINITY), by(f64::max, f64::NEG_INFINITY), mean]
    });
    Output {
        name: t.name.clone(),
        r#type: t.dtype.to_string(),
        dims: t.dims.clone(),
        first: numbers.into_iter().take(SHOWN).collect(),
        range,
        file,
    }
}

/// The entry of that name; without a name, the only one.
pub fn chosen<'a>(entries: &'a [Entry], asked: Option<&str>) -> Result<&'a Entry> {
    let names = || entries.iter().map(|e| e.name.as_str()).collect::<Vec<_>>().join(", ");
    match (asked, entries) {
        (None, [only]) => Ok(only),
        (None, _) => Err(Error::usage("the model has several entries")
            .hint(format!("name one with --entry: {}", names()))),
        (Some(name), _) => entries.iter().find(|e| e.name == name).ok_or_else(|| {
            Error::usage(format!("the model has no entry {name}"))
                .hint(format!("entries: {}", names()))
        }),
    }
}

/// The files with the weights (the model's own, or those of --weights), and whether the path is a model.
pub fn files(
    path: &Path,
    weights: Option<&Path>,
    context: Option<u64>,
) -> Result<(Option<CheckpointFiles>, bool)> {
    let is_gguf = || map(path).map(|m| (*m).as_ref().starts_with(b"GGUF"));
    let is_model = path.is_dir() || is_gguf()?;
    if is_model && weights.is_some() {
        return Err(Error::usage("--weights is for a graph's text; a model has its own"));
    }
    if !is_model && context.is_some() {
        return Err(Error::usage("--context is for a model; a graph's text says its own"));
    }
    if is_model {
        return Ok((Some(CheckpointFiles::open(path)?), true));
    }
    Ok((weights.map(CheckpointFiles::weights).transpose()?, false))
}

/// The network of a path and these files; what is known of it where it is a model.
pub fn network<'a>(
    path: &Path,
    files: Option<&'a CheckpointFiles>,
    is_model: bool,
    context: Option<u64>,
) -> Result<(Network<'a>, Option<Facts>)> {
    if let Some(files) = files
        && is_model
    {
        let (network, facts) = Network::of(files.checkpoint(), files.maps(), context)?;
        return Ok((network, Some(facts)));
    }
    let maps = files.map_or(&[][..], CheckpointFiles::maps);
    let weights = files.map(CheckpointFiles::checkpoint);
    Ok((Network { entries: vec![read_graph(path)?], weights, maps }, None))
}

/// The arrays of --input. Integers are converted to the type that the graph wants.
fn arrays<'a>(given: &[(&'a str, &Path)], wanted: &[Signature]) -> Result<Vec<(&'a str, Array)>> {
    let one = |&(name, path): &(&'a str, &Path)| {
        let at = path.display().to_string();
        let bytes = map(path).map_err(|e| e.hint("give a NumPy file (.npy)"))?;
        let array = Array::parse((*bytes).as_ref()).map_err(|e| e.at(at))?;
        let ty = wanted.iter().find(|w| w.name == name).map(|w| w.ty.dtype);
        Ok((name, ty.map_or(array.clone(), |ty| array.as_integers(ty))))
    };
    given.iter().map(one).collect()
}

/// Writes the outputs to a folder and returns their paths.
fn write(tensors: &[Tensor], folder: &Path, force: bool) -> Result<Vec<String>> {
    std::fs::create_dir_all(folder).map_err(|e| {
        let what = format!("the folder cannot be made: {e}");
        Error::new(Code::Io, what).at(folder.display().to_string())
    })?;
    let one = |t: &Tensor| {
        let path = folder.join(file_name(&t.name));
        write_file(&path, &Array::to_file(t.dtype, &t.dims, &t.bytes)?, force)?;
        Ok(path.display().to_string())
    };
    tensors.iter().map(one).collect()
}

pub fn graph(args: &GraphArgs) -> Result<ExitCode> {
    let row = args.device.row()?;
    let inputs: Vec<(&str, &Path)> = args.inputs.iter().map(|i| parts(i)).collect::<Result<_>>()?;
    let (files, is_model) = files(&args.path, args.weights.as_deref(), args.context)?;
    let (mut network, _) = network(&args.path, files.as_ref(), is_model, args.context)?;
    let mut options = CompileOptions::default();
    if let Some(floats) = args.precision {
        network = network.in_floats(floats.precision(), &mut options);
    }
    let entry = chosen(&network.entries, args.entry.as_deref())?;
    let (wanted, outputs) = entry.signatures(&(row.target)(), &options)?;
    if inputs.is_empty() && !wanted.is_empty() {
        return list(&entry.name, &wanted, &outputs, args.json);
    }
    let name = entry.name.clone();
    let arrays = arrays(&inputs, &wanted)?;
    let (row, device) = args.device.open()?;
    let mut line = ProgressLine::new("loading");
    let mut show = |done: u64, total: u64| line.show(done, total);
    let mut session = network.open(row, device, &options, &mut show)?;
    line.clear();
    let given: Vec<(&str, TensorRef<'_>)> = arrays
        .iter()
        .map(|(name, a)| (*name, TensorRef { dtype: a.dtype, dims: &a.dims, bytes: &a.bytes }))
        .collect();
    let tensors = run(&mut session, &name, &given)?;
    let written = args.output.as_ref().map(|folder| write(&tensors, folder, args.force));
    let mut written = written.transpose()?.unwrap_or_default().into_iter();
    let outputs: Vec<Output> = tensors.iter().map(|t| output(t, written.next())).collect();
    let info = session.info();
    if args.json {
        print_json(&Ran { entry: &name, device: info.kind, adapter: info.adapter, outputs })?;
    } else {
        print_text(&outputs.iter().map(text).collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A safe file name for an output: a graph's text may give it any name.
fn file_name(output: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = output.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    format!("{}.npy", name.trim_start_matches('.'))
}

fn text(o: &Output) -> String {
    let first: Vec<String> = o.first.iter().map(|x| format!("{x:.6}")).collect();
    let more = if o.dims.iter().product::<u64>() > SHOWN as u64 { " …" } else { "" };
    let range = o.range.map_or(String::new(), |[low, high, mean]| {
        format!("\n  from {low:.6} to {high:.6}, mean {mean:.6}")
    });
    let file = o.file.as_ref().map_or(String::new(), |f| format!("\n  in {f}"));
    format!("{}: {} {:?}\n  {}{more}{range}{file}\n", o.name, o.r#type, o.dims, first.join(" "))
}

/// Lists an entry's inputs and outputs.
fn list(entry: &str, inputs: &[Signature], outputs: &[Signature], json: bool) -> Result<ExitCode> {
    let listed = Listed { entry, inputs: named(inputs), outputs: named(outputs) };
    if json {
        print_json(&listed)?;
        return Ok(ExitCode::SUCCESS);
    }
    let lines = |of: &[Named]| -> String {
        of.iter().map(|s| format!("    {}: {}\n", s.name, s.r#type)).collect()
    };
    let (inputs, outputs) = (lines(&listed.inputs), lines(&listed.outputs));
    print_text(&format!("{entry}\n  inputs\n{inputs}  outputs\n{outputs}"))?;
    Ok(ExitCode::SUCCESS)
}
