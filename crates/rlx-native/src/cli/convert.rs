//! `rlx convert`.

use super::print_text;
use super::progress::ProgressLine;
use super::quantize::report;
use crate::network::Folder;
use crate::tools::convert::{ConvertOptions, convert as write};
use crate::tools::mix::Quant;
use crate::tools::quantize::names;
use clap::Args;
use rlx_core::{Code, Error, Result};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Args)]
pub struct ConvertArgs {
    /// A transformers folder: config.json, *.safetensors and the tokenizer's files
    #[arg(value_name = "DIR")]
    input: PathBuf,
    /// The GGUF file to write
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Format of matrices, as for `rlx quantize` [default: the type that they have]
    #[arg(long, value_name = "Q")]
    to: Option<String>,
    /// Number of encoding threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

pub fn convert(args: &ConvertArgs) -> Result<ExitCode> {
    let parse = |name: &String| {
        Quant::parse(name, false)
            .map_err(|e| Error::usage(e.what).hint(format!("give one of {}", names().join(", "))))
    };
    let quant = args.to.as_ref().map(parse).transpose()?;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or_else(cores, usize::from);
    let options = ConvertOptions { quant, threads, force: args.force };
    if !args.input.is_dir() {
        let at = args.input.display().to_string();
        return Err(match args.input.exists() {
            true => Error::usage("this is a file, and what is converted is a folder")
                .at(at)
                .hint("give the folder that has config.json; for a GGUF file see `rlx quantize`"),
            false => Error::new(Code::Io, "there is no such folder")
                .at(at)
                .hint("give the folder of a transformers checkpoint"),
        });
    }
    let folder = Folder::open(&args.input)?;
    let start = Instant::now();
    let mut line = ProgressLine::new("converting");
    let done = write(&folder, &args.out, options, &mut |done, total| line.show(done, total))?;
    line.clear();
    report(&done.fallbacks);
    print_text(&format!(
        "{}: {}, {} tensors, {:.1} MB in {:.1} s\n",
        args.out.display(),
        done.architecture,
        done.tensors,
        done.bytes as f64 / 1e6,
        start.elapsed().as_secs_f64()
    ))?;
    Ok(ExitCode::SUCCESS)
}
