//! Command-line options that several commands share.

use super::progress::ProgressLine;
use crate::auto::{self, AUTO, Opened, Why};
use crate::devices::{self, CPU, DeviceRow, OpenOptions};
use crate::files::ModelSource;
use crate::form::Form;
use crate::load::{LoadOptions, Model, load};
use crate::network::CheckpointFiles;
use crate::tools::profile::{check_device, from_toml_path};
use clap::{Args, ValueEnum};
use core::cell::RefCell;
use rlx_core::profile::CompileProfile;
use rlx_core::runtime::generate::engine::{BlockOptions, GenerateOptions};
use rlx_core::sample::SampleParams;
use rlx_core::target::{Activations, Precision, ProgramActivations};
use rlx_core::types::{BlockFormat, DType};
use rlx_core::{Code, Error, Result};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Element type of the caches.
#[derive(Clone, Copy, ValueEnum)]
pub enum Kv {
    F32,
    F16,
    #[value(name = "q8_0")]
    Q8_0,
    #[value(name = "q4_0")]
    Q4_0,
}

impl Kv {
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Q8_0 => DType::Block(BlockFormat::Q8_0),
            Self::Q4_0 => DType::Block(BlockFormat::Q4_0),
        }
    }
}

/// What a network computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Floats {
    /// 32 bits.
    F32,
    /// 16 bits: 11 of precision, numbers up to 65,504.
    F16,
    /// 16 bits: 8 of precision, the range of f32.
    Bf16,
}

impl Floats {
    /// The compiler's word.
    pub fn precision(self) -> Precision {
        match self {
            Self::F32 => Precision::F32,
            Self::F16 => Precision::F16,
            Self::Bf16 => Precision::Bf16,
        }
    }
}

/// Reads `--activations` of what has one program.
pub fn activations(name: &str) -> std::result::Result<Activations, String> {
    Activations::from_name(name).ok_or_else(|| format!("expected {}", activation_names()))
}

fn activation_names() -> String {
    Activations::ALL.map(Activations::name).join(", ")
}

/// Reads `--activations`: a type, or those of decode and of prompts.
pub fn program_activations(names: &str) -> std::result::Result<ProgramActivations, String> {
    ProgramActivations::from_names(names).ok_or_else(|| {
        let types = activation_names();
        format!("expected {types}, or two of them for decode and for prompts, such as int16/int8")
    })
}

/// What happens where the context is full.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Overflow {
    /// An answer ends, and a longer prompt is an error
    Error,
    /// The oldest is left out, and the answer goes on
    Slide,
}

/// Options that choose and open a device.
#[derive(Args)]
pub struct DeviceArgs {
    /// Device: auto, reference, cpu, webgpu, cuda, rocm, metal, mlx, tpu, xla-cpu or xla-cuda; cuda:1 is the second
    /// card. `auto` is the fastest of this machine's, measured once: `rlx devices` says which
    #[arg(long, value_name = "D", default_value = AUTO)]
    pub device: String,
    /// Numbers of the devices of cuda, tpu, xla-cpu or xla-cuda that run the model together, such as 0,1 [default: the
    /// first alone]
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub devices: Vec<u16>,
    /// Number of threads of the CPU device [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Part of the name of the WebGPU adapter to use [default: the fastest]
    #[arg(long, value_name = "NAME")]
    pub adapter: Option<String>,
    /// PJRT plugin of the devices tpu, xla-cpu and xla-cuda [default: PJRT_PLUGIN, else libtpu.so]
    #[arg(long, value_name = "FILE")]
    pub plugin: Option<PathBuf>,
    /// What `auto` is, once that was asked.
    #[arg(skip)]
    auto: RefCell<Option<Opened>>,
}

/// What a GPU may meet where the CPU, which has every operator, would not.
const FAULTS: [Code; 5] =
    [Code::CheckFailed, Code::OutOfMemory, Code::DeviceLost, Code::Internal, Code::Unsupported];

impl DeviceArgs {
    /// The row of the device; of `auto`, which is opened for that, the fastest one's.
    pub fn row(&self) -> Result<&'static DeviceRow> {
        if self.device == AUTO { Ok(self.open()?.0) } else { self.named() }
    }

    /// The device's name, and the number of the card that follows it.
    fn parts(&self) -> (&str, Option<&str>) {
        match self.device.split_once(':') {
            Some((name, card)) => (name, Some(card)),
            None => (&self.device, None),
        }
    }

    fn named(&self) -> Result<&'static DeviceRow> {
        let (name, card) = self.parts();
        let row = devices::find(name).map_err(|e| {
            let hint = e.hint.replacen("devices: ", "devices: auto, ", 1);
            e.hint(hint)
        })?;
        if !row.cards && (card.is_some() || !self.devices.is_empty()) {
            return Err(no_numbers(name));
        }
        match card {
            Some(card) if card.parse::<u16>().is_err() => {
                Err(Error::usage(format!("`{card}` is no number of a card"))
                    .hint("cards are numbered from 0: --device cuda:1 is the second"))
            }
            Some(_) if !self.devices.is_empty() => {
                let what = format!("--device {} names a card, --devices others", self.device);
                Err(Error::usage(what).hint("leave one of them out"))
            }
            _ => Ok(row),
        }
    }

    /// Fails for a name that no device has, and opens none.
    pub fn check(&self) -> Result<()> {
        match self.device == AUTO {
            true if !self.devices.is_empty() => Err(no_numbers(AUTO)),
            true => Ok(()),
            false => self.named().map(drop),
        }
    }

    /// Opens the device.
    pub fn open(&self) -> Result<Opened> {
        if self.device != AUTO {
            let row = self.named()?;
            return Ok((row, (row.open)(&self.open_options())?));
        }
        self.check()?;
        if let Some(opened) = &*self.auto.borrow() {
            return Ok(opened.clone());
        }
        let auto = auto::open(&self.open_options())?;
        if let Why::Measured(_) = auto.why {
            note(&format!("auto is {}, {}", auto.row.name, auto.why));
        }
        Ok(self.auto.borrow_mut().insert((auto.row, auto.device)).clone())
    }

    /// Opens the device and loads something onto it, with a line of progress. Where nobody named a device and the
    /// fastest one does not hold or run it, the CPU gets it.
    pub fn load<T>(
        &self,
        mut load: impl FnMut(Opened, &mut dyn FnMut(u64, u64)) -> Result<T>,
    ) -> Result<T> {
        let mut once = |opened| {
            let mut line = ProgressLine::new("loading");
            let loaded = load(opened, &mut |done, total| line.show(done, total));
            line.clear();
            loaded
        };
        let opened = self.open()?;
        let row = opened.0;
        match once(opened) {
            Err(e) if self.device == AUTO && row.name != CPU && FAULTS.contains(&e.code) => {
                note(&format!("not used: {}: {}", row.name, e.what));
                let row = devices::find(CPU)?;
                let opened = (row, (row.open)(&self.open_options())?);
                self.auto.replace(Some(opened.clone()));
                once(opened)
            }
            loaded => loaded,
        }
    }

    pub fn open_options(&self) -> OpenOptions {
        let one = self.parts().1.and_then(|card| card.parse().ok());
        OpenOptions {
            threads: self.threads.map(usize::from),
            adapter: self.adapter.clone(),
            plugin: self.plugin.clone(),
            cards: one.into_iter().chain(self.devices.iter().copied()).map(usize::from).collect(),
        }
    }
}

/// The error of numbers of cards for a device that has none.
fn no_numbers(device: &str) -> Error {
    Error::usage(format!("cards are chosen by number, and the device {device} has no numbers"))
        .hint("add --device cuda, or leave the numbers out")
}

/// Says something beside the answer.
fn note(text: &str) {
    // Failing to print it is not an error.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Options that choose a model, its device and how it is compiled.
#[derive(Args)]
pub struct ModelArgs {
    /// A GGUF file, one shard of a model, or a transformers folder [default: the model inside this binary]
    #[arg(long, value_name = "PATH")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Number of positions in the caches [default: as the model was trained, at most 4096]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub context: Option<u64>,
    /// Element type of the caches [default: f32 on reference, else f16]
    #[arg(long, value_name = "TYPE")]
    pub kv: Option<Kv>,
    /// Activation type in matmuls of packed weights, or two for decode and for prompts: int8, mixed, int16, f16 or f32
    /// [default: f32 on reference, int16/mixed on cpu, f32/f16 on cuda and rocm; on webgpu int16/int8 or f32, by speed]
    #[arg(long, value_name = "TYPE", value_parser = program_activations)]
    pub activations: Option<ProgramActivations>,
    /// Positions of a block, for a model that fills blocks [default: as the model was trained]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub block_length: Option<u64>,
    /// Compile profile: a TOML file as in profiles/ [default: the presets of the model's family]
    #[arg(long, value_name = "FILE")]
    pub compile_profile: Option<PathBuf>,
}

/// Reads a compile profile, if one is given, and checks that it is for this device.
pub fn profile(path: Option<&Path>, row: &DeviceRow) -> Result<Option<CompileProfile>> {
    let Some(path) = path else { return Ok(None) };
    let profile = from_toml_path(path)?;
    check_device(&profile, row)?;
    Ok(Some(profile))
}

impl ModelArgs {
    pub fn row(&self) -> Result<&'static DeviceRow> {
        self.device.row()
    }

    pub fn open_options(&self) -> OpenOptions {
        self.device.open_options()
    }

    pub fn load_options(&self, logits: bool) -> Result<LoadOptions> {
        Ok(LoadOptions {
            conversations: 0, // a command has one
            chunk: None,
            context: self.context,
            block: self.block_length,
            kv: self.kv.map(Kv::dtype),
            activations: self.activations,
            logits,
            profile: profile(self.compile_profile.as_deref(), self.row()?)?,
            memory: None,
        })
    }

    /// The model's files.
    pub fn source(&self) -> Result<CheckpointFiles> {
        match &self.model {
            Some(path) => CheckpointFiles::open(path),
            None => ModelSource::embedded().map(CheckpointFiles::Gguf),
        }
    }

    /// Opens the device, then the files, and loads. On a terminal a long load shows its progress.
    pub fn load(&self, logits: bool) -> Result<Model> {
        self.device.open()?;
        let source = self.source()?;
        let model = self.device.load(|(row, device), progress| {
            load(&source, row, device, &self.load_options(logits)?, progress)
        })?;
        for why in model.engine.info().demoted {
            note(&format!("not used: {why}"));
        }
        Ok(model)
    }
}

/// Options that say what form answers have.
#[derive(Args)]
#[group(multiple = false)]
pub struct FormArgs {
    /// Answer with a JSON object
    #[arg(long)]
    pub json_object: bool,
    /// Answer with JSON of the schema in this file
    #[arg(long, value_name = "FILE")]
    pub json_schema: Option<PathBuf>,
    /// Answer with a text of the grammar in this file: llama.cpp's GBNF; in a file *.lark llguidance's Lark
    #[arg(long, value_name = "FILE")]
    pub grammar: Option<PathBuf>,
    /// Answer with a text that this regular expression matches as a whole
    #[arg(long, value_name = "REGEX")]
    pub regex: Option<String>,
}

impl FormArgs {
    /// The form's kind and text.
    fn read(&self) -> Result<Option<(&'static str, String)>> {
        let file = |path: &Path| {
            std::fs::read_to_string(path).map_err(|e| {
                Error::new(Code::Io, format!("the file of the answer's form cannot be read: {e}"))
                    .at(path.display().to_string())
            })
        };
        let is_lark = |path: &Path| path.extension().is_some_and(|e| e == "lark");
        Ok(match (&self.json_schema, &self.grammar, &self.regex) {
            (Some(path), ..) => Some(("schema", file(path)?)),
            (_, Some(path), _) => Some((if is_lark(path) { "lark" } else { "gbnf" }, file(path)?)),
            (.., Some(regex)) => Some(("regex", regex.clone())),
            _ if self.json_object => Some(("json", String::new())),
            _ => None,
        })
    }

    /// Has every answer of the model take the form.
    pub fn apply(&self, model: &mut Model) -> Result<()> {
        if let Some((kind, text)) = self.read()? {
            model.form = Some(Form::new(model, kind, text)?);
        }
        Ok(())
    }
}

/// Options for sampling.
#[derive(Args)]
pub struct SampleArgs {
    /// Most tokens of an answer [default: until the context is full; with `--overflow slide` as many as it has]
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub max_tokens: Option<u64>,
    /// What happens where the context is full; system turn and newest question stay in it
    #[arg(long, value_name = "WHAT", default_value = "error")]
    pub overflow: Overflow,
    /// Sampling temperature, from 0 (always the best token) to 100 [default: the file's, else 0]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub temperature: Option<f32>,
    /// Keep the best K tokens; 0 keeps all
    #[arg(
        long,
        value_name = "K",
        default_value_t = 0,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(0..)
    )]
    pub top_k: u32,
    /// Keep the best tokens whose probabilities sum to P: above 0, at most 1
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    pub top_p: f32,
    /// Keep tokens with at least M times the best token's probability: from 0, below 1
    #[arg(long, value_name = "M", default_value_t = 0.0, allow_negative_numbers = true)]
    pub min_p: f32,
    /// Penalty on tokens already in the text: above 0, at most 10; 1 is off
    #[arg(long, value_name = "R", default_value_t = 1.0, allow_negative_numbers = true)]
    pub repeat_penalty: f32,
    /// Passes that a block is spread over, for a model that fills blocks [default: one for each position]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub steps: Option<u32>,
    /// Probability from 0 to 1 above which a pass fixes a token of a block [default: the model's]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub threshold: Option<f32>,
    /// Probability from 0 to 1 above which a pass replaces a token of a block [default: tokens stay]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub editing_threshold: Option<f32>,
    /// Most passes behind a block's last mask, which only replace tokens [default: 16]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_post_steps: Option<u32>,
    /// Text that ends the answer; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// Random seed: equal seeds and logits give equal tokens
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
}

impl SampleArgs {
    /// The options of a generation. `file_temperature` is the model file's temperature.
    pub fn generate(&self, file_temperature: Option<f32>) -> Result<GenerateOptions> {
        if self.stop.iter().any(String::is_empty) {
            return Err(Error::usage("--stop is empty, expected at least one character"));
        }
        let params = SampleParams {
            temperature: self.temperature.or(file_temperature).unwrap_or(0.0),
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repeat_penalty,
            seed: self.seed,
            ..SampleParams::default()
        };
        params.validate()?;
        Ok(GenerateOptions {
            max_tokens: self.max_tokens.map(|n| n as usize),
            params,
            stops: self.stop.clone(),
            blocks: BlockOptions {
                steps: self.steps,
                threshold: self.threshold,
                editing_threshold: self.editing_threshold,
                max_post_steps: self.max_post_steps,
            },
            ..GenerateOptions::default()
        })
    }
}
