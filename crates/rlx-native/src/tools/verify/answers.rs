//! Records of language models in GGUF files, which llama.cpp wrote: answers to questions, one list of tokens for each
//! format of the weights; or logits behind a prompt, with the tokens that follow.

use super::{Comparison, Report, cache_tolerance};
use crate::devices::DeviceRow;
use crate::files::small_file;
use crate::generate::{chat_tokens, generate, raw_tokens};
use crate::load::{LoadOptions, Model, load};
use crate::network::CheckpointFiles;
use rlx_core::models::{self, Task};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::generate::engine::GenerateOptions;
use rlx_core::sample::SampleParams;
use rlx_core::target::Activations;
use rlx_core::text::Message;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of a record of answers, beside the files of the model in each format.
const ANSWERS: &str = "expected.json";
/// How far logits may be from llama.cpp's, over the largest: it multiplies in f16 where weights are f16.
const TOLERANCE: f64 = 1e-3;
/// Most tokens of the answers of a record of logits.
const SAID: usize = 24;

/// One file of answers.
#[derive(Deserialize)]
struct Answers {
    max_new_tokens: usize,
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct Question {
    messages: Vec<Message>,
    prompt_ids: Vec<u32>,
    /// By the format of the weights, as the model's file is named.
    formats: BTreeMap<String, Answer>,
}

#[derive(Deserialize)]
struct Answer {
    tokens: Vec<u32>,
}

/// Logits behind a prompt.
#[derive(Deserialize)]
struct Behind {
    prompt: String,
    prompt_ids: Vec<u32>,
    logits: Vec<f64>,
    /// Positions of the caches that llama.cpp had: some models rotate otherwise where there are more.
    n_ctx: Option<u64>,
    /// Tokens that follow, whatever they are.
    greedy: Option<Vec<u32>>,
    /// The same up to the one that ends an answer.
    answer: Option<Vec<u32>>,
    penalised: Option<Penalised>,
}

#[derive(Deserialize)]
struct Penalised {
    repetition_penalty: f32,
    tokens: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Record {
    Answers(Answers),
    Behind(Behind),
}

/// What of a record is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The record; `None`: the file of the model's name that ends in `.json`, else `expected.json` beside it.
    pub record: Option<PathBuf>,
    /// Only so many questions of a record of answers.
    pub questions: Option<usize>,
    /// The caches' element type; `None`: the device's usual for answers, f32 for logits.
    pub kv: Option<DType>,
}

/// The record of a model's file.
fn record(model: &Path, wanted: &Wanted) -> Result<(Record, String)> {
    let own = [model.with_extension("json"), model.with_file_name(ANSWERS)];
    let found = wanted.record.clone().or_else(|| own.into_iter().find(|path| path.exists()));
    let path = found.ok_or_else(|| {
        Error::usage("there is no record of what the model answers")
            .at(model.display().to_string())
            .hint("name one with --record: a JSON file with logits or answers of llama.cpp")
    })?;
    let at = path.display().to_string();
    let bytes = small_file(&path)?
        .ok_or_else(|| Error::new(Code::Io, "the file is not there").at(at.clone()))?;
    let record = serde_json::from_slice((*bytes).as_ref()).map_err(|_| {
        Error::bad_file("the file is no record of logits or of answers")
            .at(at.clone())
            .hint("it has prompt, prompt_ids and logits, or max_new_tokens and questions")
    })?;
    Ok((record, at))
}

/// The format in a model's file name: what stands behind the last `-` before the number of a shard.
fn format_of(path: &Path) -> Option<String> {
    let name = path.file_stem()?.to_str()?;
    let whole = name.split_once("-00001-of-").map_or(name, |(whole, _)| whole);
    whole.rsplit_once('-').map(|(_, format)| format.to_lowercase())
}

/// Compares a language model's GGUF file with a record of llama.cpp's.
///
/// # Errors
/// `Usage` where there is no record, or none of the file's format; `BadFile` for a record that is none; `Unsupported`
/// for a model that makes no text; what loading and running meet. A difference is no error.
pub fn verify_answers(
    path: &Path,
    row: &DeviceRow,
    device: Arc<dyn Device>,
    wanted: &Wanted,
) -> Result<Report> {
    let (record, at) = record(path, wanted)?;
    let files = CheckpointFiles::open(path)?;
    let facts = models::open(&files.checkpoint())?.facts();
    if facts.task != Task::Generate {
        return Err(Error::new(
            Code::Unsupported,
            "records of GGUF files are of models that make text",
        )
        .at(at)
        .hint("a transformers folder with io.safetensors is compared for every kind of model"));
    }
    let info = device.info();
    let open = |options: &LoadOptions| load(&files, row, device.clone(), options, &mut |_, _| {});
    let outputs = match record {
        Record::Answers(answers) => {
            let format = format_of(path).unwrap_or_default();
            let mut model = open(&LoadOptions { kv: wanted.kv, ..LoadOptions::default() })?;
            questions(&mut model, &answers, &format, wanted, &at)?
        }
        Record::Behind(behind) => {
            let kv = wanted.kv.unwrap_or(DType::F32);
            let mut model = open(&LoadOptions {
                context: behind.n_ctx,
                kv: Some(kv),
                activations: Some(Activations::F32.into()),
                logits: true,
                ..LoadOptions::default()
            })?;
            logits(&mut model, &behind, TOLERANCE.max(cache_tolerance(kv)))?
        }
    };
    Ok(Report { family: facts.family.to_owned(), info, outputs })
}

/// Tokens of an answer that samples by nothing but these options.
fn said(model: &mut Model, prompt: &[u32], options: &GenerateOptions) -> Result<Vec<u32>> {
    Ok(generate(model, prompt.to_vec(), options, &|| false, &mut |_| Ok(()))?.tokens)
}

fn questions(
    model: &mut Model,
    answers: &Answers,
    format: &str,
    wanted: &Wanted,
    at: &str,
) -> Result<Vec<Comparison>> {
    let mut outputs = Vec::new();
    let most = wanted.questions.unwrap_or(usize::MAX);
    for (i, question) in answers.questions.iter().take(most).enumerate() {
        let want = question.formats.get(format).ok_or_else(|| {
            let known: Vec<&str> = question.formats.keys().map(String::as_str).collect();
            Error::usage(format!("the record has no answers of the format `{format}`")).at(at).hint(
                format!("it has {}: the model's file name ends with its format", known.join(", ")),
            )
        })?;
        let prompt = chat_tokens(model, &question.messages)?;
        outputs.push(Comparison::of_ids(&format!("in.prompt.{i}"), &prompt, &question.prompt_ids));
        let max_tokens = Some(answers.max_new_tokens);
        let options = GenerateOptions { max_tokens, ..GenerateOptions::default() };
        let tokens = said(model, &prompt, &options)?;
        outputs.push(Comparison::of_ids(&format!("out.answer.{i}"), &tokens, &want.tokens));
    }
    Ok(outputs)
}

fn logits(model: &mut Model, behind: &Behind, tolerance: f64) -> Result<Vec<Comparison>> {
    let prompt = raw_tokens(model, &behind.prompt);
    let mut outputs = vec![Comparison::of_ids("in.prompt", &prompt, &behind.prompt_ids)];
    let once = GenerateOptions { max_tokens: Some(1), logits: true, ..GenerateOptions::default() };
    let answer = generate(model, prompt.clone(), &once, &|| false, &mut |_| Ok(()))?;
    let got = answer.logits.ok_or_else(|| Error::internal("an engine gave no logits"))?;
    let want: Vec<f32> = behind.logits.iter().map(|x| *x as f32).collect();
    outputs.push(Comparison::of("out.logits", &got, &want, tolerance));
    if let Some(greedy) = &behind.greedy {
        let max_tokens = Some(greedy.len());
        let options =
            GenerateOptions { max_tokens, ignore_stops: true, ..GenerateOptions::default() };
        let tokens = said(model, &prompt, &options)?;
        outputs.push(Comparison::of_ids("out.greedy", &tokens, greedy));
    }
    let options =
        |params| GenerateOptions { max_tokens: Some(SAID), params, ..GenerateOptions::default() };
    if let Some(answer) = &behind.answer {
        let tokens = said(model, &prompt, &options(SampleParams::default()))?;
        outputs.push(Comparison::of_ids("out.answer", &tokens, answer));
    }
    if let Some(Penalised { repetition_penalty, tokens: want }) = &behind.penalised {
        let repetition_penalty = *repetition_penalty;
        let params = SampleParams { repetition_penalty, ..SampleParams::default() };
        let tokens = said(model, &prompt, &options(params))?;
        outputs.push(Comparison::of_ids("out.penalised", &tokens, want));
    }
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_stands_at_the_end_of_a_files_name() {
        let of = |name: &str| format_of(Path::new(name));
        assert_eq!(of("a/rustdoc-2m-q4_k_m.gguf").as_deref(), Some("q4_k_m"));
        assert_eq!(of("rustdoc-29m-Q4_K_M-00001-of-00003.gguf").as_deref(), Some("q4_k_m"));
        assert_eq!(of("model.gguf"), None);
    }
}
