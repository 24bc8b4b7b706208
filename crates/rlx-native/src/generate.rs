//! One answer of a loaded model, on this thread, with the clock read beside it.

use crate::block_on::block_on;
use crate::load::Model;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rlx_core::runtime::generate::engine::{GenerateOptions, Progress};
use rlx_core::runtime::generate::machine::Reason;
use rlx_core::text::{Message, RenderOptions, Special, encode_chat};
use rlx_core::{Error, Result};
use std::time::{Duration, Instant};

/// An answer and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The text, without what a stop string cut off.
    pub text: String,
    /// Sampled ids, the end token included.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of those, the ones that the caches still held.
    pub reused_tokens: usize,
    /// Tokens of it that were left out while it was written, if the context was full and slid.
    pub left_out: Option<usize>,
    /// Why it ended; never `Failed`.
    pub reason: Reason,
    /// Tokens that each pass over a block fixed, of a model that fills blocks.
    pub passes: Vec<u32>,
    /// Logits after the prompt, if they were asked for.
    pub logits: Option<Vec<f32>>,
    /// To the first token, or to the first block's tokens.
    pub first: Duration,
    /// How many tokens came first.
    pub first_tokens: usize,
    /// To the end.
    pub total: Duration,
}

impl Answer {
    /// Prompt tokens a second; `None` where the clock saw no time pass, and for a model that fills blocks: the passes
    /// of its first block are in that time.
    pub fn prefill_tokens_per_s(&self) -> Option<f64> {
        if !self.passes.is_empty() {
            return None;
        }
        rate(self.prompt_tokens - self.reused_tokens, self.first)
    }

    /// Tokens a second after those that came first; `None` where there are none.
    pub fn decode_tokens_per_s(&self) -> Option<f64> {
        rate(self.tokens.len().saturating_sub(self.first_tokens), self.total - self.first)
    }
}

fn rate(n: usize, time: Duration) -> Option<f64> {
    (n > 0 && !time.is_zero()).then(|| n as f64 / time.as_secs_f64())
}

/// Tokens of a conversation, by the model's chat template. What spells a control token inside a
/// message is text. One BOS is added if the file wants one and the template wrote none.
///
/// # Errors
/// `Usage` for a model without a template; what the template raises.
pub fn chat_tokens(model: &Model, messages: &[Message]) -> Result<Vec<u32>> {
    let template = model.template.as_ref().map_err(Clone::clone)?;
    let options =
        RenderOptions { add_generation_prompt: true, now: Some(now()), ..RenderOptions::default() };
    Ok(encode_chat(model.engine.tokenizer(), &template.render(messages, &options)?))
}

/// The time that templates are told: the system's local time, in seconds since 1970 of that clock. It is UTC where the
/// system names no time zone.
pub(crate) fn now() -> i64 {
    let now = Timestamp::now();
    now.as_second() + i64::from(TimeZone::system().to_offset(now).seconds())
}

/// Tokens of a text as it is: control tokens parsed, a BOS as the file says.
pub fn raw_tokens(model: &Model, text: &str) -> Vec<u32> {
    let tokenizer = model.engine.tokenizer();
    let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
    bos.into_iter().chain(tokenizer.encode(text, Special::Parse)).collect()
}

/// Generates an answer. `show` is given text as it comes; once `cancelled` says so, nothing more is
/// asked for, and what has come is the answer.
///
/// # Errors
/// As [`Engine::start`](rlx_core::runtime::generate::engine::Engine::start), of the device, and of `show`.
pub fn generate(
    model: &mut Model,
    prompt: Vec<u32>,
    options: &GenerateOptions,
    cancelled: &dyn Fn() -> bool,
    show: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<Answer> {
    let engine = &mut model.engine;
    let start = Instant::now();
    let mut generation = engine.start(prompt, options)?;
    if let Some(form) = &model.form {
        generation.constrain(engine, form.constraint()?)?;
    }
    let (mut text, mut first, mut first_tokens) = (String::new(), None, 0);
    let reason = loop {
        let progress = block_on(|cx| {
            if cancelled() {
                generation.cancel();
            }
            let progress = generation.poll_next(engine, cx);
            // The first token may bring no text, so the clock is read within the poll.
            if first.is_none() && !generation.tokens().is_empty() {
                first = Some(start.elapsed());
                first_tokens = generation.tokens().len();
            }
            progress
        });
        match progress {
            Some(Progress::Text(more)) => {
                show(&more)?;
                text += &more;
            }
            Some(Progress::Prompt(..) | Progress::Control(_)) => {}
            Some(Progress::Done(Reason::Failed(error))) => return Err(error),
            Some(Progress::Done(reason)) => break reason,
            None => return Err(Error::internal("a generation ended twice")),
        }
    };
    let total = start.elapsed();
    Ok(Answer {
        text,
        tokens: generation.tokens().to_vec(),
        prompt_tokens: generation.prompt_tokens(),
        reused_tokens: generation.reused_tokens(),
        left_out: generation.left_out(),
        reason,
        passes: generation.passes().iter().map(|p| p.fixed).collect(),
        logits: generation.logits().map(<[f32]>::to_vec),
        first: first.unwrap_or(total),
        first_tokens,
        total,
    })
}
