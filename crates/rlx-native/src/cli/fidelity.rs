//! `rlx fidelity`: what a device and options cost, in answers.

use super::options::{DeviceArgs, Kv, profile, program_activations};
use super::progress::ProgressLine;
use super::{print_json, print_text};
use crate::devices;
use crate::files::small_file;
use crate::load::LoadOptions;
use crate::network::CheckpointFiles;
use crate::tools::fidelity::{
    Fidelity, Side, Way, fidelity as compare, reference_options, windows,
};
use clap::Args;
use rlx_core::target::ProgramActivations;
use rlx_core::text::Special;
use rlx_core::{Code, Error, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
#[command(
    after_help = "The text's own tokens are fed to both, so each row is compared with the reference's of the \
    same text: by one row a step (decode) and by chunks of rows (prompts). A text longer than the context is read in \
    windows. KL is the divergence of the next token's probabilities from the reference's, in nats: 0 is equal."
)]
pub struct FidelityArgs {
    /// A GGUF file, one shard of a model, or a transformers folder
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// A text in UTF-8
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    /// Most tokens of the text to read
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(2..))]
    tokens: u32,
    #[command(flatten)]
    device: DeviceArgs,
    /// The device to compare with, which runs with activations and caches of f32: as --device names them.
    /// `reference` is the truth, and too slow for real models
    #[arg(long, value_name = "D", default_value = devices::CPU)]
    reference: String,
    /// Number of positions in the caches [default: as the model was trained, at most 4096]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    context: Option<u64>,
    /// Rows of a prompt's chunk [default: 2048 on cuda and rocm, 512 on webgpu, 128 on cpu, 32 on reference]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=4096))]
    chunk: Option<u64>,
    /// Element type of the caches [default: f32 on reference, else f16]
    #[arg(long, value_name = "TYPE")]
    kv: Option<Kv>,
    /// Activation type in matmuls of packed weights, or two for decode and for prompts: int8, mixed, int16, f16 or f32
    /// [default: f32 on reference, int16/mixed on cpu, int16/int8 on webgpu]
    #[arg(long, value_name = "TYPE", value_parser = program_activations)]
    activations: Option<ProgramActivations>,
    /// Compile profile: a TOML file as in profiles/ [default: the presets of the model's family]
    #[arg(long, value_name = "FILE")]
    compile_profile: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Measured<'a> {
    device: &'a str,
    adapter: &'a str,
    kv: &'static str,
    activations: String,
    chunk: u64,
    context: usize,
    /// Tokens of the text.
    tokens: usize,
    reference: &'a str,
    reference_adapter: &'a str,
    decode: Row,
    prompts: Row,
}

#[derive(Serialize)]
struct Row {
    rows: usize,
    mean_kl: f64,
    worst_kl: f64,
    worst_at: usize,
    top1: f64,
    perplexity: f64,
    reference_perplexity: f64,
}

impl From<Fidelity> for Row {
    fn from(f: Fidelity) -> Self {
        let Fidelity { rows, mean_kl, worst_kl, worst_at, top1, perplexity, reference_perplexity } =
            f;
        Row { rows, mean_kl, worst_kl, worst_at, top1, perplexity, reference_perplexity }
    }
}

fn text_of(path: &Path) -> Result<String> {
    let at = || path.display().to_string();
    let bytes = small_file(path)?.ok_or_else(|| {
        Error::new(Code::Io, "the file is not there").at(at()).hint("give the path of a text")
    })?;
    let text = String::from_utf8((*bytes).as_ref().to_vec());
    text.map_err(|_| Error::bad_file("the text is no UTF-8").at(at()).hint("save it as UTF-8"))
}

/// The text's first tokens. What spells a control token is text.
fn tokens(args: &FidelityArgs, tokenizer: &rlx_core::text::Tokenizer) -> Result<Vec<u32>> {
    let mut tokens = tokenizer.encode(&text_of(&args.text)?, Special::Literal);
    tokens.truncate(args.tokens as usize);
    if tokens.len() < 2 {
        let what = format!("the text has {} tokens, expected 2 or more", tokens.len());
        return Err(Error::usage(what)
            .at(args.text.display().to_string())
            .hint("give a longer text: some thousand tokens tell options apart"));
    }
    Ok(tokens)
}

pub fn fidelity(args: &FidelityArgs) -> Result<ExitCode> {
    let (row, reference_row) = (args.device.row()?, devices::find(&args.reference)?);
    let options = LoadOptions {
        context: args.context,
        chunk: args.chunk,
        kv: args.kv.map(Kv::dtype),
        activations: args.activations,
        profile: profile(args.compile_profile.as_deref(), row)?,
        ..LoadOptions::default()
    };
    let source = CheckpointFiles::open(&args.model)?;
    let tokenizer = source.language()?.tokenizer;
    let tokens = tokens(args, &tokenizer)?;
    let (_, device) = args.device.open()?;
    // Two models on one device share its threads: those of another would wait beside them.
    let reference_device = if row.name == reference_row.name {
        device.clone()
    } else {
        (reference_row.open)(&args.device.open_options())?
    };
    let load = |row, device, options: &LoadOptions| {
        let mut line = ProgressLine::new("loading");
        Side::load(&source, row, device, options, &mut |done, total| line.show(done, total))
    };
    let side = load(row, device, &options)?;
    let reference = load(reference_row, reference_device, &reference_options(&options, &side))?;
    let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
    let windows = windows(&tokens, bos, side.context());
    let rows: usize = windows.iter().map(Vec::len).sum();
    let mut line = ProgressLine::new("comparing");
    let mut of = |way, before: usize| {
        compare(&side, &reference, &windows, way, &mut |done| {
            line.share((before + done) as f64 / (2 * rows) as f64);
        })
    };
    let (prompts, decode) = (of(Way::Prompts, 0)?, of(Way::Decode, rows)?);
    line.clear();
    let (info, reference_info) = (side.info(), reference.info());
    let compile = &side.options.compile;
    let measured = Measured {
        device: &info.kind,
        adapter: &info.adapter,
        kv: compile.kv.name(),
        activations: side.options.activations.to_string(),
        chunk: side.options.chunk,
        context: side.context(),
        tokens: tokens.len(),
        reference: &reference_info.kind,
        reference_adapter: &reference_info.adapter,
        decode: decode.into(),
        prompts: prompts.into(),
    };
    if args.json {
        print_json(&measured)?;
    } else {
        print_text(&table(&measured))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(m: &Measured<'_>) -> String {
    let mut text = format!(
        "{} ({}), kv {}, activations {}, beside {} with f32, over {} tokens\n{:<8} {:>10} {:>10} {:>9} {:>11} {:>11}\n",
        m.device,
        m.adapter,
        m.kv,
        m.activations,
        m.reference,
        m.tokens,
        "",
        "mean KL",
        "worst KL",
        "top-1",
        "perplexity",
        "by f32"
    );
    for (name, row) in [("decode", &m.decode), ("prompts", &m.prompts)] {
        text += &format!(
            "{name:<8} {:>10.2e} {:>10.2e} {:>7.2} % {:>11.4} {:>11.4}\n",
            row.mean_kl,
            row.worst_kl,
            100.0 * row.top1,
            row.perplexity,
            row.reference_perplexity,
        );
    }
    text
}
