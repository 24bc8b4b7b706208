//! The `rlx` command line: options, exit codes, and how errors look.
//!
//! Exit codes: 0 ok, 1 a check failed, 2 usage, 3 bad input file, 4 device unavailable, 5 out of
//! memory. An error prints two lines on stderr: what happened and where, then what to do.

mod bench;
mod chat;
mod convert;
mod detect;
mod devices;
mod embed;
mod features;
mod fidelity;
mod graph;
mod imagine;
mod inspect;
mod kernel_times;
mod options;
mod passes;
mod progress;
mod quantize;
mod run;
mod segment;
mod shards;
mod synth;
mod template;
mod tokenize;
mod track;
mod transcribe;
mod verify;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use rlx_core::{Code, Error, Result};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Neural networks from GGUF files and transformers folders, on the CPU, any WebGPU adapter or an NVIDIA card.
#[derive(Parser)]
#[command(name = "rlx", version, propagate_version = true)]
#[command(after_help = "Exit codes: 0 ok, 1 a check failed, 2 usage, 3 bad input file, \
    4 device unavailable, 5 out of memory.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answer one prompt.
    Run(run::RunArgs),
    /// Hold a conversation: Ctrl-C stops an answer, Ctrl-C again leaves; `/reset` starts over.
    Chat(chat::ChatArgs),
    /// Compute vectors of texts.
    Embed(embed::EmbedArgs),
    /// Compute vectors of images.
    Features(features::FeaturesArgs),
    /// Write down what is said in sounds.
    Transcribe(transcribe::TranscribeArgs),
    /// Find the pixels of a thing in an image.
    Segment(segment::SegmentArgs),
    /// Follow things through the pictures of a film.
    Track(track::TrackArgs),
    /// Make a picture of a prompt.
    Imagine(imagine::ImagineArgs),
    /// Turn text on stdin into token ids, or ids into text.
    Tokenize(tokenize::TokenizeArgs),
    /// Print the prompt that a chat template makes of a conversation.
    Template(template::TemplateArgs),
    /// Run any network once, from a graph's text or a model.
    Graph(graph::GraphArgs),
    /// Show a model file, or its program at any stage of compilation.
    Inspect(inspect::InspectArgs),
    /// List the devices, and why some are not available.
    Devices(devices::DevicesArgs),
    /// Measure speed, launches and memory.
    Bench(bench::BenchArgs),
    /// Compare what a model thinks of each next token of a text with a reference in f32.
    Fidelity(fidelity::FidelityArgs),
    /// Compare the outputs of a model, or decoded block formats, with recorded values.
    Verify(verify::VerifyArgs),
    /// Write a model file with random weights in the shapes of a real model.
    Synth(synth::SynthArgs),
    /// Write a GGUF file of a transformers folder: weights, tokenizer and chat template.
    Convert(convert::ConvertArgs),
    /// Write a copy of a model file with its matrices in another format.
    Quantize(quantize::QuantizeArgs),
    /// Split a model file into shards.
    Split(shards::SplitArgs),
    /// Merge a model's shards into one file.
    Merge(shards::MergeArgs),
}

/// Runs the command of this process.
pub fn main() -> ExitCode {
    match run(std::env::args_os()) {
        Ok(code) => code,
        Err(error) => {
            report(&error);
            ExitCode::from(error.code.exit() as u8)
        }
    }
}

/// Runs a command line, program name first.
///
/// # Errors
/// The command's own; [`main`] prints the error and turns its code into the exit code.
pub fn run(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<ExitCode> {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print_text(&e.render().to_string())?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(e) => return Err(usage(&e)),
    };
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Chat(args) => chat::chat(&args),
        Command::Embed(args) => embed::embed(&args),
        Command::Features(args) => features::features(&args),
        Command::Transcribe(args) => transcribe::transcribe(&args),
        Command::Segment(args) => segment::segment(&args),
        Command::Track(args) => track::track(&args),
        Command::Imagine(args) => imagine::imagine(&args),
        Command::Tokenize(args) => tokenize::tokenize(&args),
        Command::Template(args) => template::template(&args),
        Command::Graph(args) => graph::graph(&args),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Devices(args) => devices::devices(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Fidelity(args) => fidelity::fidelity(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Synth(args) => synth::synth(&args),
        Command::Convert(args) => convert::convert(&args),
        Command::Quantize(args) => quantize::quantize(&args),
        Command::Split(args) => shards::split(&args),
        Command::Merge(args) => shards::merge(&args),
    }
}

/// clap's error as an [`Error`]: its first paragraph says what is wrong.
fn usage(e: &clap::Error) -> Error {
    if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Error::usage("no command is given").hint("see `rlx --help`");
    }
    let text = e.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let what = words.join(" ");
    Error::usage(what.strip_prefix("error: ").unwrap_or(&what)).hint("see `rlx --help`")
}

/// Prints an error on stderr: what happened and where, then what to do.
fn report(error: &Error) {
    let mut text = format!("error: {}", error.what);
    if !error.at.is_empty() {
        text += &format!(" ({})", error.at);
    }
    let hint = match error.hint.as_str() {
        "" if error.code == Code::Usage => "see `rlx --help`",
        hint => hint,
    };
    if !hint.is_empty() {
        text += &format!("\nhint: {hint}");
    }
    // A failure to write to stderr cannot be reported anywhere.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints to stdout and flushes it. If the reader is gone (`rlx … | head`), the command ends.
fn print_text(text: &str) -> Result<()> {
    print_bytes(text.as_bytes())
}

/// The same of bytes.
fn print_bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => Err(Error::new(Code::Io, format!("stdout cannot be written: {e}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints a value as one line of JSON.
fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string(value)
        .map_err(|e| Error::internal(format!("the result is no JSON: {e}")))?;
    print_text(&(text + "\n"))
}
