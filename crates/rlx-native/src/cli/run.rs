//! `rlx run`: one prompt, one answer.

use super::options::{FormArgs, ModelArgs, Overflow, SampleArgs};
use super::{print_json, print_text};
use crate::choice::ChosenJson;
use crate::generate::{Answer, chat_tokens, generate, raw_tokens};
use crate::load::Model;
use crate::overflow::{Fitted, LeftOut, fit};
use crate::platform::peak_rss_bytes;
use clap::Args;
use rlx_core::text::Message;
use rlx_core::{Error, Result};
use serde::Serialize;
use std::process::ExitCode;

#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub sample: SampleArgs,
    #[command(flatten)]
    pub form: FormArgs,
    /// Text of the system turn
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Send the prompt as it is, without the chat template
    #[arg(long, conflicts_with = "system")]
    pub raw: bool,
    /// With `--json`: print the K largest logits after the prompt
    #[arg(long, value_name = "K", requires = "json", value_parser = clap::value_parser!(u32).range(1..))]
    pub top_logits: Option<u32>,
    /// Print one line of JSON instead of the text
    #[arg(long)]
    pub json: bool,
    /// The question
    #[arg(value_name = "PROMPT")]
    pub prompt: String,
}

/// What `--json` prints of an answer.
#[derive(Serialize)]
pub struct AnswerJson<'a> {
    text: &'a str,
    tokens: &'a [u32],
    prompt_tokens: usize,
    reused_tokens: usize,
    /// `stop` or `length`; null if the answer was cancelled.
    finish_reason: Option<&'static str>,
    /// The kind of executor that ran.
    device: String,
    adapter: String,
    /// Why another device ran than the one asked for; always null on the command line.
    fallback: Option<&'static str>,
    prefill_tokens_per_s: Option<f64>,
    decode_tokens_per_s: Option<f64>,
    /// What of the conversation was left out of a full context.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<LeftOut>,
    /// Tokens that each pass over a block fixed, of a model that fills blocks.
    #[serde(skip_serializing_if = "<[u32]>::is_empty")]
    tokens_per_pass: &'a [u32],
    load_ms: f64,
    peak_rss_bytes: Option<u64>,
    kv: &'static str,
    activations: String,
    /// Why these, where the device was timed for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    activation_times: Option<ChosenJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_logits: Option<Vec<(u32, f32)>>,
}

impl<'a> AnswerJson<'a> {
    /// `top_logits` is how many of the logits to show.
    pub fn of(
        model: &Model,
        answer: &'a Answer,
        left_out: Option<LeftOut>,
        top_logits: Option<u32>,
    ) -> Self {
        let info = model.engine.info();
        AnswerJson {
            text: &answer.text,
            tokens: &answer.tokens,
            prompt_tokens: answer.prompt_tokens,
            reused_tokens: answer.reused_tokens,
            finish_reason: answer.reason.finish(),
            device: info.kind,
            adapter: info.adapter,
            fallback: None,
            prefill_tokens_per_s: answer.prefill_tokens_per_s(),
            decode_tokens_per_s: answer.decode_tokens_per_s(),
            left_out,
            tokens_per_pass: &answer.passes,
            load_ms: model.load_time.as_secs_f64() * 1e3,
            peak_rss_bytes: peak_rss_bytes(),
            kv: model.kv.name(),
            activations: model.activations.to_string(),
            activation_times: model.chosen.as_ref().map(ChosenJson::from),
            top_logits: top_logits
                .map(|k| largest(answer.logits.as_deref().unwrap_or_default(), k as usize)),
        }
    }
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
        raw_tokens(&model, &args.prompt)
    } else {
        let system = args.system.iter().map(|text| Message::new("system", text));
        let messages: Vec<Message> = system.chain([Message::new("user", &args.prompt)]).collect();
        chat_tokens(&model, &messages)?
    };
    args.form.apply(&mut model)?;
    let mut options = args.sample.generate(model.temperature)?;
    options.logits = args.top_logits.is_some();
    let context = model.engine.compiled().context as usize;
    // A question alone has no turns to leave out: of its answer the oldest is.
    let question = match args.sample.overflow {
        Overflow::Error => Fitted::whole(prompt),
        Overflow::Slide => fit(context, 0, &|_| Ok(prompt.clone()), &mut options)?,
    };
    let mut show = |text: &str| if args.json { Ok(()) } else { print_text(text) };
    let answer = generate(&mut model, question.prompt.clone(), &options, &|| false, &mut show)?;
    if args.json {
        print_json(&AnswerJson::of(&model, &answer, question.left_out(&answer), args.top_logits))?;
    } else {
        print_text("\n")?;
    }
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
