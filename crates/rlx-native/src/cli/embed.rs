//! `rlx embed`: computes vectors of texts.

use super::options::{DeviceArgs, Floats, activations};
use super::progress::ProgressLine;
use super::{print_json, print_text};
use crate::embed::{EmbedOptions, embed as vectors_of, embedder};
use crate::network::CheckpointFiles;
use crate::new_file::NewFile;
use crate::npy::Array;
use clap::{Args, ValueEnum};
use rlx_core::gguf::Sink;
use rlx_core::models::PoolingKind;
use rlx_core::target::Activations;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use serde::Serialize;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// How one vector is computed from a text's rows.
#[derive(Clone, Copy, ValueEnum)]
enum Pool {
    Mean,
    Cls,
    Last,
    Max,
}

impl Pool {
    fn kind(self) -> PoolingKind {
        match self {
            Self::Mean => PoolingKind::Mean,
            Self::Cls => PoolingKind::Cls,
            Self::Last => PoolingKind::Last,
            Self::Max => PoolingKind::Max,
        }
    }
}

#[derive(Args)]
pub struct EmbedArgs {
    /// An encoder: a GGUF file or one of its shards, or a folder with config.json and model.safetensors
    #[arg(long, value_name = "PATH")]
    model: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
    /// How one vector is computed from a text's rows [default: as the model's files say, else mean]
    #[arg(long, value_name = "KIND")]
    pooling: Option<Pool>,
    /// Whether to scale vectors to length 1 [default: as the model's files say, else true]
    #[arg(long, value_name = "BOOL")]
    normalise: Option<bool>,
    /// Most tokens of a text; longer texts are cut [default: as the model's files say]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_tokens: Option<u64>,
    /// Activation type in matmuls of packed weights: int8, mixed, int16, f16 or f32 [default: f32]
    #[arg(long, value_name = "TYPE", value_parser = activations)]
    activations: Option<Activations>,
    /// Type of activations between operators; sums, inputs and outputs stay f32 [default: f32]
    #[arg(long, value_name = "TYPE")]
    precision: Option<Floats>,
    /// Write the vectors to this .npy file, one row per text, instead of printing them
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With `--output`: replace an existing file
    #[arg(long, requires = "output")]
    force: bool,
    /// Print one line of JSON for all texts: texts, width, device, vectors
    #[arg(long)]
    json: bool,
    /// The texts; `-` reads one text per line of stdin
    #[arg(value_name = "TEXT", required = true)]
    texts: Vec<String>,
}

#[derive(Serialize)]
struct Embedded<'a> {
    texts: usize,
    width: usize,
    max_tokens: usize,
    /// Texts that were cut because they were longer.
    truncated: usize,
    device: &'a str,
    adapter: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    vectors: Option<Vec<&'a [f32]>>,
}

/// The texts of the command line; the lines of stdin replace `-`.
fn texts(args: &[String]) -> Result<Vec<String>> {
    let mut out = Vec::new();
    let mut read = false;
    for arg in args {
        if arg != "-" {
            out.push(arg.clone());
            continue;
        }
        if read {
            return Err(Error::usage("`-` is given twice, stdin can be read once"));
        }
        read = true;
        let mut all = Vec::new();
        let io = |e| Error::new(Code::Io, format!("stdin cannot be read: {e}"));
        std::io::stdin().lock().read_to_end(&mut all).map_err(io)?;
        let text = String::from_utf8(all).map_err(|_| Error::bad_file("stdin is no UTF-8"))?;
        out.extend(text.lines().map(str::to_owned));
    }
    if out.is_empty() {
        return Err(
            Error::usage("there is no text").hint("give texts in quotes, or lines on stdin with -")
        );
    }
    Ok(out)
}

pub fn embed(args: &EmbedArgs) -> Result<ExitCode> {
    args.device.check()?;
    let texts = texts(&args.texts)?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let files = CheckpointFiles::open(&args.model)?;
    let options = EmbedOptions {
        pooling: args.pooling.map(Pool::kind),
        normalise: args.normalise,
        max_tokens: args.max_tokens,
        activations: args.activations,
    };
    let precision = args.precision.map(Floats::precision);
    let mut embedder = args.device.load(|(row, device), progress| {
        embedder(&files, row, device, (&options, precision), progress)
    })?;
    let mut line = ProgressLine::new("embedding");
    let mut show = |done: usize, all: usize| {
        line.share(done as f64 / all as f64);
        true
    };
    let (vectors, truncated) = vectors_of(&mut embedder, &texts, &mut show)?;
    line.clear();
    let (width, limit) = (embedder.width(), embedder.limit());
    if truncated > 0 && !args.json {
        let text = format!(
            "{truncated} of {} texts were longer than {limit} tokens, and were cut",
            texts.len()
        );
        // Failing to print this note is not an error.
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
    if let Some(path) = &args.output {
        let bytes: Vec<u8> = vectors.iter().flat_map(|x| x.to_le_bytes()).collect();
        let file = Array::to_file(DType::F32, &[texts.len() as u64, width as u64], &bytes)?;
        write_file(path, &file, args.force)?;
    }
    let rows: Vec<&[f32]> = vectors.chunks_exact(width).collect();
    let info = embedder.session().info();
    if args.json {
        print_json(&Embedded {
            texts: texts.len(),
            width,
            max_tokens: limit,
            truncated,
            device: &info.kind,
            adapter: &info.adapter,
            vectors: args.output.is_none().then_some(rows),
        })?;
    } else if let Some(path) = &args.output {
        print_text(&format!("{} vectors of {width} numbers in {}\n", texts.len(), path.display()))?;
    } else {
        for row in rows {
            print_json(&row)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file completely, or not at all.
pub(super) fn write_file(path: &std::path::Path, bytes: &[u8], force: bool) -> Result<()> {
    let mut file = NewFile::create(path, bytes.len() as u64, force)?;
    file.put(bytes)?;
    file.commit()
}
