//! Measuring: speed by the clock, launches by the device's own counts.
//!
//! A repetition is two generations over the same number of prompt tokens, which differ in their
//! first token, so that nothing but the prefilled depth is reused: one samples a single token, the
//! other `tokens + 1`. Their difference is exactly `tokens` decode steps.

use crate::block_on::block_on;
use rlx_core::runtime::device::Counters;
use rlx_core::runtime::generate::engine::{Engine, GenerateOptions, Progress};
use rlx_core::runtime::generate::machine::Reason;
use rlx_core::{Error, Result};
use std::time::{Duration, Instant};

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BenchOptions {
    /// Prompt tokens whose prefill is timed, at least 1.
    pub prompt_tokens: usize,
    /// Decode steps that are timed, at least 1.
    pub tokens: usize,
    /// Tokens that the caches hold before.
    pub depth: usize,
    /// Repetitions, at least 1.
    pub repeat: usize,
}

/// Medians over the repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BenchResult {
    /// Prompt tokens a second, the first sampled token included.
    pub prefill_tokens_per_s: f64,
    /// Decoded tokens a second.
    pub decode_tokens_per_s: f64,
    /// Kernel launches of a decode step; on the CPU, steps.
    pub dispatches_per_token: f64,
    /// Queue submissions of a decode step.
    pub submits_per_token: f64,
    /// Bytes copied to the host for a decode step.
    pub readback_bytes_per_token: f64,
    /// Bytes of buffers alive afterwards.
    pub device_bytes: u64,
}

pub(crate) struct Timed {
    first: Duration,
    total: Duration,
    counters: Counters,
}

/// Generates exactly `tokens` tokens after `prompt`.
pub(crate) fn generate(engine: &mut Engine, prompt: Vec<u32>, tokens: usize) -> Result<Timed> {
    let before = engine.device().counters();
    let options = GenerateOptions {
        max_tokens: Some(tokens),
        ignore_stops: true,
        ..GenerateOptions::default()
    };
    let start = Instant::now();
    let mut generation = engine.start(prompt, &options)?;
    let mut first = None;
    loop {
        // The first token may bring no text, so the clock is read within the poll.
        let progress = block_on(|cx| {
            let progress = generation.poll_next(engine, cx);
            if first.is_none() && !generation.tokens().is_empty() {
                first = Some(start.elapsed());
            }
            progress
        });
        match progress {
            Some(Progress::Done(Reason::Failed(error))) => return Err(error),
            Some(Progress::Done(_)) => break,
            Some(_) => {}
            None => return Err(Error::internal("a generation ended twice")),
        }
    }
    let total = start.elapsed();
    if generation.tokens().len() != tokens {
        let n = generation.tokens().len();
        return Err(Error::internal(format!("{n} tokens were sampled instead of {tokens}")));
    }
    let after = engine.device().counters();
    Ok(Timed {
        first: first.unwrap_or(total),
        total,
        counters: Counters {
            dispatches: after.dispatches - before.dispatches,
            submits: after.submits - before.submits,
            readback_bytes: after.readback_bytes - before.readback_bytes,
            live_bytes: after.live_bytes,
        },
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => 0.0,
        _ if n % 2 == 1 => values[n / 2],
        _ => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// Checks that an engine can be measured so.
pub(crate) fn check(engine: &Engine, options: &BenchOptions) -> Result<()> {
    let BenchOptions { prompt_tokens, tokens, depth, repeat } = *options;
    if prompt_tokens == 0 || tokens == 0 || repeat == 0 {
        return Err(Error::usage("a bench needs 1 or more prompt tokens, tokens and repetitions"));
    }
    if engine.compiled().diffusion.is_some_and(|d| d.whole) {
        let what = "prompt and answer of this model are one block, so their times are not apart";
        return Err(Error::usage(what).hint("time an answer of `rlx run`"));
    }
    let context = engine.compiled().context;
    // The last sampled token is never fed.
    let needed = depth as u64 + prompt_tokens as u64 + tokens as u64;
    if needed > context {
        let what = format!(
            "depth {depth} + {prompt_tokens} prompt tokens + {tokens} tokens are more than the context of {context}"
        );
        return Err(Error::usage(what).hint("measure fewer, or give a longer --context"));
    }
    Ok(())
}

/// Tokens of one run. Any do: the work does not depend on them. Runs differ in the first after the
/// depth, so that nothing else is reused.
pub(crate) fn prompt(engine: &Engine, depth: usize, new: usize, run: u32) -> Vec<u32> {
    let vocab = engine.compiled().module.vocab as u32;
    let at_depth = (0..depth as u32).map(|i| i % vocab);
    let new = (0..new as u32).map(|i| (run + 7 * i) % vocab);
    at_depth.chain(new).collect()
}

/// Measures an engine. A generation before the first repetition is not counted: it warms up what
/// is made on first use.
///
/// # Errors
/// `Usage` where the tokens do not fit the context; what the device meets.
pub fn bench(engine: &mut Engine, options: &BenchOptions) -> Result<BenchResult> {
    check(engine, options)?;
    let BenchOptions { prompt_tokens, tokens, depth, repeat } = *options;
    let prompt = |engine: &Engine, run: u32| prompt(engine, depth, prompt_tokens, run);
    let first = prompt(engine, 0);
    generate(engine, first, tokens.min(2))?;
    let (mut prefill, mut decode) = (Vec::new(), Vec::new());
    let [mut dispatches, mut submits, mut readback] = [const { Vec::new() }; 3];
    let mut device_bytes = 0;
    for i in 0..repeat as u32 {
        let (one, two) = (prompt(engine, 2 * i + 1), prompt(engine, 2 * i + 2));
        let short = generate(engine, one, 1)?;
        let long = generate(engine, two, tokens + 1)?;
        prefill.push(prompt_tokens as f64 / short.total.as_secs_f64());
        decode.push(tokens as f64 / (long.total - long.first).as_secs_f64());
        let per_token = |long: u64, short: u64| (long as f64 - short as f64) / tokens as f64;
        dispatches.push(per_token(long.counters.dispatches, short.counters.dispatches));
        submits.push(per_token(long.counters.submits, short.counters.submits));
        readback.push(per_token(long.counters.readback_bytes, short.counters.readback_bytes));
        device_bytes = long.counters.live_bytes;
    }
    Ok(BenchResult {
        prefill_tokens_per_s: median(&mut prefill),
        decode_tokens_per_s: median(&mut decode),
        dispatches_per_token: median(&mut dispatches),
        submits_per_token: median(&mut submits),
        readback_bytes_per_token: median(&mut readback),
        device_bytes,
    })
}

/// Measures an engine one turn at a time, so that a caller can let another program have its turn
/// between. What the caches hold up to the depth is computed once.
pub struct Turns<'a> {
    engine: &'a mut Engine,
    options: BenchOptions,
    turn: u32,
}

impl<'a> Turns<'a> {
    /// Warms the engine up and fills its caches to the depth; `repeat` means nothing here.
    ///
    /// # Errors
    /// As [`bench()`].
    pub fn new(engine: &'a mut Engine, options: &BenchOptions) -> Result<Self> {
        check(engine, options)?;
        let mut turns = Self { engine, options: *options, turn: 0 };
        let prompt = turns.prompt(1);
        generate(turns.engine, prompt, options.tokens.min(2))?;
        Ok(turns)
    }

    /// The depth's tokens, and `new` ones that differ from the last turn's in the first.
    fn prompt(&mut self, new: usize) -> Vec<u32> {
        self.turn += 1;
        prompt(self.engine, self.options.depth, new, self.turn)
    }

    /// The time of the prompt tokens, the first sampled token included.
    ///
    /// # Errors
    /// What the device meets.
    pub fn prefill(&mut self) -> Result<Duration> {
        let prompt = self.prompt(self.options.prompt_tokens);
        Ok(generate(self.engine, prompt, 1)?.total)
    }

    /// The time of the decode steps, which begin one token after the depth.
    ///
    /// # Errors
    /// What the device meets.
    pub fn decode(&mut self) -> Result<Duration> {
        let prompt = self.prompt(1);
        let timed = generate(self.engine, prompt, self.options.tokens + 1)?;
        Ok(timed.total - timed.first)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(super::median(&mut [4.0, 1.0, 3.0]), 3.0);
        assert_eq!(super::median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
