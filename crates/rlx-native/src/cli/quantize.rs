//! `rlx quantize`.

use super::print_text;
use super::progress::ProgressLine;
use crate::network::CheckpointFiles;
use crate::tools::mix::Quant;
use crate::tools::quantize::{
    Fallback, QuantizeOptions, names, quantize as write, quantize_folder,
};
use clap::Args;
use rlx_core::{Error, Result};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Args)]
pub struct QuantizeArgs {
    /// A GGUF file, one shard of a model, or the folder of a network that is no language model
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The file to write; of a folder the new folder
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Format: q4_k_m, q5_k_m, f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k,
    /// q6_k, iq4_nl or iq4_xs; the output head gets more bits, as in llama.cpp
    #[arg(long, value_name = "Q")]
    to: String,
    /// Use the format for every matrix, the output head too
    #[arg(long)]
    pure: bool,
    /// Number of encoding threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Also re-encode packed tensors, which loses more precision
    #[arg(long)]
    requantize: bool,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

pub fn quantize(args: &QuantizeArgs) -> Result<ExitCode> {
    let quant = Quant::parse(&args.to, args.pure)
        .map_err(|e| Error::usage(e.what).hint(format!("give one of {}", names().join(", "))))?;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let options = QuantizeOptions {
        threads: args.threads.map_or_else(cores, usize::from),
        requantize: args.requantize,
        force: args.force,
    };
    let start = Instant::now();
    let mut line = ProgressLine::new("quantizing");
    let mut shown = |done, total| line.show(done, total);
    let done = match CheckpointFiles::open(&args.input)? {
        CheckpointFiles::Gguf(source) => write(&source, quant, &args.out, options, &mut shown)?,
        CheckpointFiles::Folder(folder) => {
            let folder = (&folder, args.input.as_path());
            quantize_folder(folder, quant, &args.out, options, &mut shown)?
        }
    };
    line.clear();
    report(&done.fallbacks);
    let mb = |n: u64| n as f64 / 1e6;
    print_text(&format!(
        "{}: {}, {} of {} tensors encoded, {:.1} MB of tensors to a file of {:.1} MB in {:.1} s\n",
        args.out.display(),
        quant.name(),
        done.tensors.1,
        done.tensors.0,
        mb(done.bytes.0),
        mb(done.bytes.1),
        start.elapsed().as_secs_f64()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Notes which tensors got another type than asked for, one line per pair of types.
pub fn report(fallbacks: &[Fallback]) {
    let mut told: Vec<&Fallback> = Vec::new();
    for f in fallbacks {
        let like = |other: &Fallback| (other.wanted, other.got) == (f.wanted, f.got);
        if told.iter().any(|other| like(other)) {
            continue;
        }
        told.push(f);
        let n = fallbacks.iter().filter(|other| like(other)).count();
        let others = if n > 1 { format!(" and {} more", n - 1) } else { String::new() };
        // Failing to print this note is not an error.
        let _ = writeln!(
            std::io::stderr().lock(),
            "note: {}{others}: {}, not {}, whose blocks do not fill rows of {}",
            f.name,
            f.got,
            f.wanted,
            f.row
        );
    }
}
