//! `rlx synth`.

use super::print_text;
use super::progress::ProgressLine;
use crate::tools::mix::Quant;
use crate::tools::synth::{FOLDERS, Llada2, SHAPES, Shape, synth as write, synth_folder};
use clap::Args;
use rlx_core::{Error, Result};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct SynthArgs {
    /// The file to write; for llada2-mini the folder
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Shapes: llama-3.2-1b, llama-3.1-8b, qwen3-0.6b, qwen3-4b, qwen3-30b-a3b, qwen35-0.8b, gemma-3-1b,
    /// gemma-3-270m, lfm2-350m, smollm3-3b, phi-4-mini, gpt-oss-20b, moe-1b-7b, llama-0.6b, llama-125m or
    /// llama-tiny, as GGUF files; llada2-mini as a transformers folder
    #[arg(long, value_name = "S")]
    shape: String,
    /// Format of a GGUF file: q4_k_m, q5_k_m, f32, f16, bf16, or a block format such as q4_0 or
    /// iq4_xs; a folder is in bf16
    #[arg(long, value_name = "Q")]
    quant: Option<String>,
    /// Number of layers, the first of the model's [default: all]
    #[arg(long, value_name = "N")]
    layers: Option<u32>,
    /// Random seed: equal seeds give equal files
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Use the format for every matrix, the output head too
    #[arg(long)]
    pure: bool,
    /// Replace an existing file; no folder is replaced
    #[arg(long)]
    force: bool,
}

pub fn synth(args: &SynthArgs) -> Result<ExitCode> {
    let mut line = ProgressLine::new("writing");
    let mut progress = |done, total| line.show(done, total);
    let (shape, quant, parameters, bytes) = if let Some(shape) = Llada2::find(&args.shape) {
        let shape = &shape.cut(args.layers)?;
        args.refuse_of_files()?;
        let bytes = synth_folder(shape, args.seed, &args.out, &mut progress)?;
        (shape.name, "bf16", shape.parameters(), bytes)
    } else {
        let shape = &find(&args.shape)?.cut(args.layers)?;
        let quant = Quant::parse(args.quant(shape.name)?, args.pure)?;
        let bytes = write(shape, quant, args.seed, &args.out, args.force, &mut progress)?;
        (shape.name, quant.name(), shape.parameters(), bytes)
    };
    line.clear();
    print_text(&format!(
        "{}: {shape} in {quant}, {:.1} M parameters, {:.1} MB\n",
        args.out.display(),
        parameters as f64 / 1e6,
        bytes as f64 / 1e6
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn find(name: &str) -> Result<&'static Shape> {
    Shape::find(name).ok_or_else(|| {
        let names = SHAPES.iter().map(|shape| shape.name).chain(FOLDERS.iter().map(|f| f.name));
        let names = names.collect::<Vec<_>>().join(", ");
        Error::usage(format!("there is no shape {name}")).hint(format!("give one of {names}"))
    })
}

impl SynthArgs {
    /// The format of a GGUF file.
    fn quant(&self, shape: &str) -> Result<&str> {
        self.quant.as_deref().ok_or_else(|| {
            Error::usage(format!("{shape} is written as a GGUF file, whose format is not said"))
                .hint("give --quant, such as --quant q4_k_m")
        })
    }

    /// Refuses options that a folder has not.
    fn refuse_of_files(&self) -> Result<()> {
        for (given, option) in
            [(self.quant.is_some(), "--quant"), (self.pure, "--pure"), (self.force, "--force")]
        {
            if given {
                let what = format!(
                    "{} is written as a folder in bf16, and {option} is for GGUF files",
                    self.shape
                );
                return Err(Error::usage(what).hint(format!("leave {option} out")));
            }
        }
        Ok(())
    }
}
