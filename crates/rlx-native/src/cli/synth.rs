//! `rlx synth`.

use super::print_text;
use super::progress::ProgressLine;
use crate::tools::mix::Quant;
use crate::tools::synth::{SHAPES, Shape, synth as write};
use clap::Args;
use rlx_core::{Error, Result};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct SynthArgs {
    /// The file to write
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Shapes: llama-3.2-1b, llama-3.1-8b, qwen3-0.6b, qwen3-4b, qwen3-30b-a3b, qwen35-0.8b, gemma-3-1b,
    /// gemma-3-270m, lfm2-350m, smollm3-3b, phi-4-mini, gpt-oss-20b, moe-1b-7b, llama-0.6b, llama-125m or
    /// llama-tiny
    #[arg(long, value_name = "S")]
    shape: String,
    /// Format: q4_k_m, q5_k_m, f32, f16, bf16, or a block format such as q4_0 or iq4_xs
    #[arg(long, value_name = "Q")]
    quant: String,
    /// Number of layers, the first of the model's [default: all]
    #[arg(long, value_name = "N")]
    layers: Option<u32>,
    /// Random seed: equal seeds give equal files
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Use the format for every matrix, the output head too
    #[arg(long)]
    pure: bool,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

pub fn synth(args: &SynthArgs) -> Result<ExitCode> {
    let shape = Shape::find(&args.shape).ok_or_else(|| {
        let names = SHAPES.map(|shape| shape.name).join(", ");
        Error::usage(format!("there is no shape {}", args.shape))
            .hint(format!("give one of {names}"))
    })?;
    let shape = &shape.cut(args.layers)?;
    let quant = Quant::parse(&args.quant, args.pure)?;
    let mut line = ProgressLine::new("writing");
    let bytes = write(shape, quant, args.seed, &args.out, args.force, &mut |done, total| {
        line.show(done, total);
    })?;
    line.clear();
    print_text(&format!(
        "{}: {} in {}, {:.1} M parameters, {:.1} MB\n",
        args.out.display(),
        shape.name,
        quant.name(),
        shape.parameters() as f64 / 1e6,
        bytes as f64 / 1e6
    ))?;
    Ok(ExitCode::SUCCESS)
}
