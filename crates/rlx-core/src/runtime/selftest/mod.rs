//! A driver may compute wrong values. So before a model answers, a small [twin] of it
//! runs on the device and on a trusted one. If their results differ, the device's optional features are
//! switched off, one at a time, then more, until the results agree. If they never do, the load fails.

pub mod check;
pub mod twin;

use crate::error::{Code, Error, Result};
use crate::math;
use crate::models::Checkpoint;
use crate::runtime::device::Device;
use crate::runtime::model::ModelOptions;
use crate::runtime::selftest::twin::{Answer, Run, Twin};
use crate::target::{Activations, ProgramActivations, Target};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::task::{Context, Poll};

/// The largest relative difference of logits that rounding explains, for this many layers. Once two devices
/// round one number to different bytes, all later values differ too: each layer's rows are rounded twice,
/// independently. At most 3e-2 was measured for two layers and 6e-2 for eight.
fn tolerance(activations: ProgramActivations, layers: usize) -> f32 {
    let of = |activations| match activations {
        Activations::F32 | Activations::F16 | Activations::Int16 => 5e-3,
        Activations::Int8 | Activations::Mixed => 5e-2 * math::sqrtf(layers as f32 + 1.0),
    };
    // A single row reads what a prompt's rows have left in the caches.
    of(activations.decode).max(of(activations.prompts))
}

/// The activation types of the trusted device: those of the tested one, so that both round x alike. Integers of two
/// parts are so near to f32 that this stands in for them where the trusted device has none, and for f16.
fn of_oracle(tested: ProgramActivations, target: &Target) -> ProgramActivations {
    let of = |activations| match activations {
        Activations::Int16 if !target.int16 => Activations::F32,
        Activations::F16 => Activations::F32,
        other => other,
    };
    ProgramActivations { decode: of(tested.decode), prompts: of(tested.prompts) }
}

/// A check of a device against a trusted one.
pub struct SelfTest {
    twin: Twin,
    device: Arc<dyn Device>,
    options: ModelOptions,
    /// The twin on the device.
    run: Run,
    got: Option<Result<Vec<Answer>>>,
    /// The twin on the trusted device, until it has answered.
    oracle: Option<Run>,
    want: Vec<Answer>,
    /// Sets of features to switch off, one set per attempt: none, each alone, more.
    without: Vec<Vec<&'static str>>,
    attempt: usize,
    /// The error that the first attempt found.
    fault: String,
}

/// All sets of features, the smallest first.
fn sets(features: &[&'static str]) -> Vec<Vec<&'static str>> {
    let mut sets = Vec::new();
    for size in 0..=features.len() {
        for mask in (0u32..1 << features.len()).filter(|m| m.count_ones() as usize == size) {
            let chosen = features.iter().enumerate().filter(|f| mask >> f.0 & 1 == 1);
            sets.push(chosen.map(|f| *f.1).collect());
        }
    }
    sets
}

/// The result of a check, in a form that the host can store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Features that are not used.
    pub without: Vec<String>,
    /// The error that they cause.
    pub why: String,
}

impl fmt::Display for Verdict {
    /// `sound`, or `without NAME, NAME: WHY`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.without.is_empty() {
            true => f.write_str("sound"),
            false => write!(f, "without {}: {}", self.without.join(", "), self.why),
        }
    }
}

impl Verdict {
    /// Reads what `to_string` wrote; `None` for anything else.
    pub fn parse(text: &str) -> Option<Verdict> {
        if text == "sound" {
            return Some(Verdict::default());
        }
        let (names, why) = text.strip_prefix("without ")?.split_once(": ")?;
        let without = names.split(", ").map(String::from).collect();
        Some(Verdict { without, why: why.into() })
    }

    /// Switches off the features that the verdict names and returns whether there are any. `None` if the device
    /// lacks one of them: the verdict then is another device's.
    pub fn apply(&self, device: &dyn Device) -> Option<bool> {
        let optional = device.optional();
        let find = |name: &String| optional.iter().find(|o| *o == name).copied();
        let features: Vec<&'static str> = self.without.iter().map(find).collect::<Option<_>>()?;
        if !features.is_empty() {
            device.avoid(&features, &self.why);
        }
        Some(!features.is_empty())
    }
}

impl SelfTest {
    /// Starts a check of `device` for this model, compiled with these options. `oracle`
    /// must support the element type of their caches.
    ///
    /// # Errors
    /// As the compiler, for either device, and errors that the oracle returns at once.
    pub fn new(
        checkpoint: &Checkpoint<'_>,
        context: u64,
        options: &ModelOptions,
        device: Arc<dyn Device>,
        oracle: &Arc<dyn Device>,
    ) -> Result<Self> {
        let options = &ModelOptions { conversations: 0, ..options.clone() };
        let twin = Twin::new(checkpoint, context, options)?;
        let mut trusted = ModelOptions::chat(twin.rows());
        trusted.compile.kv = options.compile.kv;
        // Caches of the whole context, so that rings are compared with what they stand for.
        trusted.compile.cache_spare = None;
        trusted.activations = of_oracle(options.activations, oracle.target());
        trusted.compile.super_blocks = Some(device.target().super_blocks);
        Ok(SelfTest {
            run: twin.start(&device, options)?,
            oracle: Some(twin.start(oracle, &trusted)?),
            without: sets(&device.optional()),
            device,
            options: options.clone(),
            twin,
            got: None,
            want: Vec::new(),
            attempt: 0,
            fault: String::new(),
        })
    }

    /// Continues the check. The answer says whether features were switched off: programs that were built
    /// before must then be built again.
    ///
    /// # Errors
    /// `CheckFailed` if the device computes wrong values with every set of features; `DeviceLost` and
    /// `OutOfMemory` from the devices.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        loop {
            if self.got.is_none()
                && let Poll::Ready(got) = self.run.poll(&self.twin, cx)
            {
                self.got = Some(got);
            }
            if let Some(oracle) = &mut self.oracle {
                match oracle.poll(&self.twin, cx) {
                    Poll::Ready(want) => self.want = want?,
                    Poll::Pending => return Poll::Pending,
                }
                self.oracle = None;
            }
            let Some(got) = self.got.take() else { return Poll::Pending };
            let fault = match got {
                Ok(got) => self.fault(&got),
                Err(e) if matches!(e.code, Code::DeviceLost | Code::OutOfMemory) => {
                    return Poll::Ready(Err(e));
                }
                Err(e) => Some(e.what),
            };
            let Some(fault) = fault else { return Poll::Ready(Ok(self.attempt > 0)) };
            if let Err(e) = self.again(fault) {
                return Poll::Ready(Err(e));
            }
        }
    }

    /// The verdict, once the check has answered.
    pub fn verdict(&self) -> Verdict {
        let without = self.without.get(self.attempt).into_iter().flatten();
        Verdict { without: without.map(|&f| f.into()).collect(), why: self.fault.clone() }
    }

    /// Tries the next set of features.
    fn again(&mut self, fault: String) -> Result<()> {
        if self.attempt == 0 {
            self.fault = fault;
        }
        self.attempt += 1;
        let Some(features) = self.without.get(self.attempt) else {
            return Err(Error::new(
                Code::CheckFailed,
                format!("{} computes wrong values: {}", self.device.info().adapter, self.fault),
            )
            .hint("use another device; a newer driver may help"));
        };
        self.device.avoid(features, &self.fault);
        self.run = self.twin.start(&self.device, &self.options)?;
        Ok(())
    }

    /// Compares the device's results with the trusted ones; `None` if they agree.
    fn fault(&self, got: &[Answer]) -> Option<String> {
        let tolerance = tolerance(self.options.activations, self.twin.layers());
        for (step, (got, want)) in (0..).zip(got.iter().zip(&self.want)) {
            let at = if self.twin.is_prompt(step) { "a prompt's last row" } else { "a single row" };
            let off = difference(&got.logits, &want.logits);
            if off > tolerance {
                return Some(format!("logits of {at} are off by {:.0} %", 100.0 * off));
            }
            let token = self.twin.sampled(step, &got.logits);
            if got.token != token {
                let how = if self.twin.is_masked(step) { " under a mask" } else { "" };
                return Some(format!(
                    "token {} is sampled{how} after {at}, not {token}",
                    got.token
                ));
            }
        }
        None
    }
}

/// The norm of the differences divided by the norm of the expected values; infinite if a value is NaN.
fn difference(got: &[f32], want: &[f32]) -> f32 {
    let length = |sum: f32, x: f32| sum + x * x;
    let off = got.iter().zip(want).map(|(g, w)| g - w).fold(0.0, length);
    let of = want.iter().copied().fold(0.0, length);
    let ratio = math::sqrtf(off / of);
    if ratio.is_nan() || got.len() != want.len() { f32::INFINITY } else { ratio }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn fewer_features_are_given_up_before_more() {
        assert_eq!(sets(&[]), [[""; 0]]);
        let all: [&[&str]; 4] = [&[], &["a"], &["b"], &["a", "b"]];
        assert_eq!(sets(&["a", "b"]), all);
    }

    #[test]
    fn verdicts_read_back_and_other_texts_are_none() {
        let without = ["subgroups", "b"].map(String::from).to_vec();
        for verdict in [
            Verdict::default(),
            Verdict { without, why: "logits of a single row are off by 30 %: all".into() },
        ] {
            assert_eq!(Verdict::parse(&verdict.to_string()), Some(verdict));
        }
        for text in ["", "Sound", "without", "without a", "with a: b"] {
            assert_eq!(Verdict::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_number_or_missing_differs_without_bound() {
        assert_eq!(difference(&[3.0, -3.5], &[3.0, -4.0]), 0.1);
        assert_eq!(difference(&[1.0, f32::NAN], &[1.0, -4.0]), f32::INFINITY);
        assert_eq!(difference(&[1.0], &[1.0, 2.0]), f32::INFINITY);
    }
}
