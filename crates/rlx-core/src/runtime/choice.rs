//! Whether integers make a device's products faster. Where a GPU has no instruction for products of four bytes, its
//! driver makes each of some twenty others, and no feature says so. So steps of a few of the model's layers are timed
//! ([`trial`](super::trial)) with the activation types that the device's executor recommends and with f32, those of
//! decode and of prompts apart. Floats are more faithful: integers are taken only where they gain enough.

use crate::error::{Code, Error, Result};
use crate::models::Checkpoint;
use crate::runtime::device::Device;
use crate::runtime::model::ModelOptions;
use crate::runtime::trial::{CONTEXT, Excerpt, Timed, Trial};
use crate::target::{Activations, ProgramActivations};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::poll_fn;

/// Most parts in a hundred of the floats' time that integers may take.
const MOST_PERCENT: f64 = 95.0;
/// Rows of a prompt: as many as kernels for long prompts are made for.
const ROWS: u64 = 128;
/// Steps that add so many milliseconds are enough for a clock.
const ENOUGH_MS: f64 = 6.0;
/// Such runs are timed so often besides.
const ROUNDS: usize = 3;
/// Milliseconds after which no longer runs are tried, for decode and for prompts each: only a host that hears late of
/// what is done needs as many.
const SEARCH_MS: f64 = 500.0;
/// Milliseconds after which no further round begins.
const ROUNDS_MS: f64 = 60.0;
/// Nanoseconds of a millisecond.
const NS: f64 = 1e6;
/// Most steps of a run.
const MOST_STEPS: u32 = CONTEXT as u32;

/// Milliseconds of a step of the excerpt with the recommended type, and with f32.
pub type Pair = [f64; 2];

/// What was timed; absent where the recommended type is f32 already.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// Of a step of decode.
    pub decode: Option<Pair>,
    /// Of a prompt of some rows.
    pub prompts: Option<Pair>,
}

impl Times {
    /// The types to use in place of the recommended ones.
    pub fn choose(&self, usual: ProgramActivations) -> ProgramActivations {
        let of = |usual, times: Option<Pair>| match times {
            Some([own, floats]) if 100.0 * own > MOST_PERCENT * floats => Activations::F32,
            _ => usual,
        };
        let (decode, prompts) = (of(usual.decode, self.decode), of(usual.prompts, self.prompts));
        ProgramActivations { decode, prompts }
    }

    /// Reads what `to_string` wrote for these recommended types; `None` for anything else.
    pub fn parse(text: &str, usual: ProgramActivations) -> Option<Times> {
        let mut words = text.split(' ');
        let mut pair = |usual| -> Option<Option<Pair>> {
            if usual == Activations::F32 {
                return Some(None);
            }
            let mut time = || {
                let ns: u64 = words.next()?.parse().ok()?;
                (ns > 0).then_some(ns as f64 / NS)
            };
            Some(Some([time()?, time()?]))
        };
        let times = Times { decode: pair(usual.decode)?, prompts: pair(usual.prompts)? };
        words.next().is_none().then_some(times)
    }
}

impl fmt::Display for Times {
    /// Nanoseconds: `310000 440000 2100000 1900000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, ms) in self.decode.iter().chain(&self.prompts).flatten().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { " " }, (ms * NS) as u64)?;
        }
        Ok(())
    }
}

/// A device whose forms are to be timed for a model, or were.
pub struct Choice {
    key: String,
    excerpt: Excerpt,
    device: Arc<dyn Device>,
    options: ModelOptions,
}

impl Choice {
    /// What these options, whose activations are the recommended ones, leave to choose on the device. `None` where that
    /// is nothing: floats are recommended, or the device does not want to be timed.
    ///
    /// # Errors
    /// As [`Excerpt::new`].
    pub fn new(
        checkpoint: &Checkpoint<'_>,
        device: &Arc<dyn Device>,
        options: &ModelOptions,
    ) -> Result<Option<Choice>> {
        let usual = options.activations;
        if usual == Activations::F32.into() {
            return Ok(None);
        }
        let Some(name) = device.timed_as() else { return Ok(None) };
        let excerpt = Excerpt::new(checkpoint, options)?;
        let (class, bytes) = (excerpt.class(), excerpt.bytes());
        let key = format!("{name}; {class}, {bytes} in a layer of each kind, {usual}");
        let (device, options) = (device.clone(), options.clone());
        Ok(Some(Choice { key, excerpt, device, options }))
    }

    /// Under which times may be kept: the device, its driver, the kind of model, the types.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The types that are compared with f32.
    pub fn recommended(&self) -> ProgramActivations {
        self.options.activations
    }

    /// What was kept, if it is of these forms, or else what is measured; and whether it was measured. `now` gives
    /// milliseconds.
    ///
    /// # Errors
    /// As the compiler and the device.
    pub async fn times(self, kept: Option<&str>, now: &dyn Fn() -> f64) -> Result<(Times, bool)> {
        if let Some(times) = kept.and_then(|text| Times::parse(text, self.options.activations)) {
            return Ok((times, false));
        }
        Ok((measure(&self.excerpt, &self.device, &self.options, now).await?, true))
    }
}

/// Times an excerpt's steps on a device, with the types of these options and with f32. `now` gives milliseconds.
///
/// # Errors
/// As the compiler and the device.
pub async fn measure(
    excerpt: &Excerpt,
    device: &Arc<dyn Device>,
    options: &ModelOptions,
    now: &dyn Fn() -> f64,
) -> Result<Times> {
    let rows = options.chunk.min(ROWS);
    let mut programs = Vec::new();
    let mut both = |rows, usual| {
        let first = (usual != Activations::F32).then_some(programs.len())?;
        programs.extend([usual, Activations::F32].map(|a| Timed { rows, activations: a }));
        Some(first)
    };
    let (decode, prompts) =
        (both(1, options.activations.decode), both(rows, options.activations.prompts));
    let trial = excerpt.start(device, options, &programs)?;
    let mut clock = Clock { trial, now };
    let decode = clock.pair(decode).await?;
    let prompts = clock.pair(prompts).await?;
    Ok(Times { decode, prompts })
}

struct Clock<'a> {
    trial: Trial,
    now: &'a dyn Fn() -> f64,
}

impl Clock<'_> {
    /// Milliseconds of so many steps of a program.
    async fn time(&mut self, program: usize, steps: u32) -> Result<f64> {
        let begin = (self.now)();
        self.trial.run(program, steps);
        poll_fn(|cx| self.trial.poll(cx)).await?;
        Ok((self.now)() - begin)
    }

    /// Times of a step of a program and of the one after it.
    async fn pair(&mut self, first: Option<usize>) -> Result<Option<Pair>> {
        let Some(first) = first else { return Ok(None) };
        for program in [first, first + 1] {
            self.time(program, 1).await?; // memory is touched, and the device wakes up
        }
        let now = self.now;
        let begin = now();
        let after = |ms| now() - begin > ms;
        // A browser may tell only now and then that a GPU has finished. So what counts is by how much a run of many
        // steps is longer than one of a single step.
        let mut steps = 2;
        let mut least = [[f64::INFINITY; 2]; 2];
        least[0] = [self.time(first, 1).await?, self.time(first, steps).await?];
        while least[0][1] - least[0][0] < ENOUGH_MS && steps < MOST_STEPS && !after(SEARCH_MS) {
            let [one, many] = least[0];
            steps = MOST_STEPS.min(if many > 1.5 * one { 2 * steps } else { 4 * steps });
            least[0][1] = self.time(first, steps).await?;
        }
        // In turns, because a device's pace changes; the least, because others have theirs.
        for turn in 1..=2 * ROUNDS {
            let i = turn % 2;
            if turn > 1 && after(ROUNDS_MS) {
                break;
            }
            for (j, steps) in [1, steps].into_iter().enumerate() {
                least[i][j] = least[i][j].min(self.time(first + i, steps).await?);
            }
        }
        let n = f64::from(steps);
        let step = |[one, many]: Pair| {
            if many > one { (many - one) / (n - 1.0) } else { many / n }
        };
        let pair = least.map(step);
        if pair.iter().all(|ms| *ms > 0.0) {
            return Ok(Some(pair));
        }
        Err(Error::new(Code::Internal, "the clock stood still while forms were timed"))
    }
}
