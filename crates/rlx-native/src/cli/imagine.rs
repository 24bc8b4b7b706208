//! `rlx imagine`: makes a picture of a prompt.

use super::embed::write_file;
use super::options::DeviceArgs;
use super::progress::ProgressLine;
use super::{print_json, print_text};
use crate::image;
use crate::imagine::{ImagineOptions, Pipeline, Stage, USUAL_SIZE};
use clap::Args;
use rlx_core::{Error, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Reads `--size`: `1024`, or `1024x768`.
fn size(text: &str) -> std::result::Result<[u64; 2], String> {
    let (width, height) = text.split_once('x').unwrap_or((text, text));
    let edge = |n: &str| n.parse().map_err(|_| "expected N, or WIDTHxHEIGHT".to_owned());
    Ok([edge(width)?, edge(height)?])
}

#[derive(Args)]
pub struct ImagineArgs {
    /// The folder of a FLUX.2 klein pipeline: model_index.json, transformer/, vae/, text_encoder/, tokenizer/ and
    /// scheduler/
    #[arg(long, value_name = "PATH")]
    model: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
    /// Steps from noise to picture [default: 4 for a distilled pipeline, else 50]
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Chooses the noise; a seed gives the same noise on every device
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Pixels: N for a square, or WIDTHxHEIGHT [default: 1024]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<[u64; 2]>,
    /// How strongly the prompt is preferred to no prompt [default: 4; distilled pipelines take none]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    guidance: Option<f32>,
    /// The .png file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print one line of JSON: file, width, height, steps, seed, seconds, device
    #[arg(long)]
    json: bool,
    /// What the picture shows
    #[arg(value_name = "PROMPT")]
    prompt: String,
}

#[derive(Serialize)]
struct Imagined<'a> {
    file: &'a Path,
    width: u32,
    height: u32,
    steps: u64,
    seed: u64,
    seconds: f64,
    device: &'a str,
    adapter: &'a str,
}

/// One line on a terminal, of what is being done.
struct Shown {
    line: ProgressLine,
    verb: &'static str,
    steps: u64,
}

impl Shown {
    fn show(&mut self, stage: Stage) {
        let verb = match stage {
            Stage::Loading(..) => "loading",
            Stage::Step(..) => "imagining",
            Stage::Decoding => "decoding",
        };
        if verb != self.verb {
            (self.line, self.verb) = (ProgressLine::new(verb), verb);
        }
        match stage {
            Stage::Loading(done, all) => self.line.show(done, all),
            Stage::Step(done, all) => {
                self.steps = all;
                self.line.count(done, all, "steps");
            }
            Stage::Decoding => {}
        }
    }
}

pub fn imagine(args: &ImagineArgs) -> Result<ExitCode> {
    args.device.check()?;
    if args.out.extension().is_none_or(|e| !e.eq_ignore_ascii_case("png")) {
        return Err(Error::usage("--out: a picture is written as PNG")
            .at(args.out.display().to_string())
            .hint("give a name that ends in .png"));
    }
    // Before minutes of work.
    if args.out.exists() && !args.force {
        return Err(Error::usage("--out: the file exists")
            .at(args.out.display().to_string())
            .hint("give another name, or --force"));
    }
    let pipeline = Pipeline::open(&args.model)?;
    let [width, height] = args.size.unwrap_or([USUAL_SIZE; 2]);
    let options = ImagineOptions {
        width,
        height,
        steps: args.steps,
        seed: args.seed,
        guidance: args.guidance,
        ..ImagineOptions::default()
    };
    let (row, device) = args.device.open()?;
    let begun = Instant::now();
    let mut shown = Shown { line: ProgressLine::new("loading"), verb: "loading", steps: 0 };
    let picture = pipeline.imagine(&args.prompt, &options, row, &device, &mut |stage| {
        shown.show(stage);
        true
    })?;
    let Shown { line, steps, .. } = shown;
    line.clear();
    write_file(&args.out, &image::png(&picture)?, args.force)?;
    let seconds = begun.elapsed().as_secs_f64();
    let (width, height) = (picture.width(), picture.height());
    if args.json {
        let info = device.info();
        print_json(&Imagined {
            file: &args.out,
            width,
            height,
            steps,
            seed: args.seed,
            seconds,
            device: &info.kind,
            adapter: &info.adapter,
        })?;
    } else {
        let path = args.out.display();
        print_text(&format!("{width} x {height} pixels, {steps} steps, {seconds:.1} s: {path}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
