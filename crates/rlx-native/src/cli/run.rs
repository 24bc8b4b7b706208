//! `rlx run`: one prompt, one answer.

use super::options::{ModelArgs, SampleArgs};
use super::{print_json, print_text};
use crate::block_on::block_on;
use crate::load::Model;
use crate::platform::peak_rss_bytes;
use clap::Args;
use rlx_core::runtime::engine::{GenerateOptions, Progress};
use rlx_core::runtime::generate::Reason;
use rlx_core::text::{Message, RenderOptions, Special, encode_chat};
use rlx_core::{Error, Result};
use serde::Serialize;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub sample: SampleArgs,
    /// Text of the system turn
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Send the prompt as it is, without the chat template
    #[arg(long, conflicts_with = "system")]
    pub raw: bool,
    /// With --json: the K largest logits after the prompt
    #[arg(long, value_name = "K", requires = "json", value_parser = clap::value_parser!(u32).range(1..))]
    pub top_logits: Option<u32>,
    /// One line of JSON instead of the text
    #[arg(long)]
    pub json: bool,
    /// The question
    #[arg(value_name = "PROMPT")]
    pub prompt: String,
}

/// What `--json` prints of an answer.
#[derive(Serialize)]
pub struct Answer {
    pub text: String,
    /// Sampled ids, the end token included.
    pub tokens: Vec<u32>,
    pub prompt_tokens: usize,
    /// Of the prompt's, those that the caches still held.
    pub reused_tokens: usize,
    /// `stop` or `length`; null when it was cancelled.
    pub finish_reason: Option<&'static str>,
    /// The kind of executor that ran.
    pub device: String,
    pub adapter: String,
    /// Why another device than the one asked for ran: never, here.
    pub fallback: Option<String>,
    /// Null where the clock saw no time pass, or nothing was measured.
    pub prefill_tokens_per_s: Option<f64>,
    pub decode_tokens_per_s: Option<f64>,
    pub load_ms: f64,
    pub peak_rss_bytes: Option<u64>,
    pub kv: &'static str,
    pub activations: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logits: Option<Vec<(u32, f32)>>,
}

/// Tokens of a conversation, by the model's template.
pub fn chat_tokens(model: &Model, messages: &[Message]) -> Result<Vec<u32>> {
    let template = model.template.as_ref().map_err(Clone::clone)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let options = RenderOptions {
        add_generation_prompt: true,
        now: now.ok().map(|since| since.as_secs() as i64),
        ..RenderOptions::default()
    };
    let rendered = template.render(messages, &options)?;
    Ok(encode_chat(model.engine.tokenizer(), &rendered))
}

/// Generates an answer. `show` is given text as it comes; once `cancelled` says so, nothing more is
/// asked for.
pub fn answer(
    model: &mut Model,
    prompt: Vec<u32>,
    options: &GenerateOptions,
    cancelled: &dyn Fn() -> bool,
    show: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<(Answer, Option<Vec<f32>>)> {
    let engine = &mut model.engine;
    let start = Instant::now();
    let mut generation = engine.start(prompt, options)?;
    let (mut text, mut first) = (String::new(), None);
    let reason = loop {
        let progress = block_on(|cx| {
            if cancelled() {
                generation.cancel();
            }
            generation.poll_next(engine, cx)
        });
        if first.is_none() && !generation.tokens().is_empty() {
            first = Some(start.elapsed());
        }
        match progress {
            Some(Progress::Text(more)) => {
                show(&more)?;
                text += &more;
            }
            Some(Progress::Prompt(..)) => {}
            Some(Progress::Done(Reason::Failed(error))) => return Err(error),
            Some(Progress::Done(reason)) => break reason,
            None => return Err(Error::internal("a generation ended twice")),
        }
    };
    let total = start.elapsed();
    let rate = |n: usize, seconds: f64| (n > 0 && seconds > 0.0).then(|| n as f64 / seconds);
    let first = first.unwrap_or(total);
    let info = engine.info();
    let answer = Answer {
        text,
        tokens: generation.tokens().to_vec(),
        prompt_tokens: generation.prompt_tokens(),
        reused_tokens: generation.reused_tokens(),
        finish_reason: reason.finish(),
        device: info.kind,
        adapter: info.adapter,
        fallback: None,
        prefill_tokens_per_s: rate(
            generation.prompt_tokens() - generation.reused_tokens(),
            first.as_secs_f64(),
        ),
        decode_tokens_per_s: rate(
            generation.tokens().len().saturating_sub(1),
            (total - first).as_secs_f64(),
        ),
        load_ms: model.load_time.as_secs_f64() * 1e3,
        peak_rss_bytes: peak_rss_bytes(),
        kv: model.kv.name(),
        activations: model.activations.name(),
        top_logits: None,
    };
    Ok((answer, generation.logits().map(<[f32]>::to_vec)))
}

/// The `k` largest logits, equal ones by id.
fn largest(logits: &[f32], k: usize) -> Vec<(u32, f32)> {
    let mut all: Vec<(u32, f32)> = logits.iter().enumerate().map(|(i, &x)| (i as u32, x)).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all.truncate(k);
    all
}

pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let blank = if args.raw { args.prompt.is_empty() } else { args.prompt.trim().is_empty() };
    if blank {
        return Err(Error::usage("the prompt is empty").hint("give a question in quotes"));
    }
    args.sample.generate(None)?; // a value out of range is said before a model is loaded
    let mut model = args.model.load(args.top_logits.is_some())?;
    let prompt = if args.raw {
        let tokenizer = model.engine.tokenizer();
        let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
        bos.into_iter().chain(tokenizer.encode(&args.prompt, Special::Parse)).collect()
    } else {
        let system = args.system.iter().map(|text| Message::new("system", text));
        let messages: Vec<Message> = system.chain([Message::new("user", &args.prompt)]).collect();
        chat_tokens(&model, &messages)?
    };
    let mut options = args.sample.generate(model.temperature)?;
    options.logits = args.top_logits.is_some();
    let mut show = |text: &str| if args.json { Ok(()) } else { print_text(text) };
    let (mut answer, logits) = answer(&mut model, prompt, &options, &|| false, &mut show)?;
    if !args.json {
        print_text("\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    answer.top_logits = args.top_logits.map(|k| largest(&logits.unwrap_or_default(), k as usize));
    print_json(&answer)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_logits_stand_by_id() {
        assert_eq!(largest(&[1.0, 3.0, 3.0, f32::NEG_INFINITY], 3), [(1, 3.0), (2, 3.0), (0, 1.0)]);
        assert_eq!(largest(&[1.0], 5), [(0, 1.0)]);
    }
}
