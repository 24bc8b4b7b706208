//! Whether integers or floats are faster on a device: timed once for a device, driver and kind of model, and
//! remembered.

use crate::block_on::block_on;
use crate::load::milliseconds;
use crate::remembered::{TIMES, remember, remembered};
use core::fmt;
use core::pin::pin;
use rlx_core::models::Checkpoint;
use rlx_core::runtime::choice::{Choice, Pair, Times};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::target::{Activations, ProgramActivations};
use serde::Serialize;
use std::sync::Arc;

/// Why a model has its activation types.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// What the device's executor recommends.
    pub recommended: ProgramActivations,
    /// What was timed with these types and with f32.
    pub times: Times,
    /// Whether an earlier load timed it.
    pub remembered: bool,
}

impl fmt::Display for Chosen {
    /// `decode 0.310 ms by int8, 0.440 ms by f32; prompts ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProgramActivations { decode, prompts } = self.recommended;
        let mut one = |what: &str, usual: Activations, times: Option<Pair>| match times {
            None => Ok(()),
            Some([own, floats]) => {
                write!(f, "{what} {own:.3} ms by {}, {floats:.3} ms by f32", usual.name())
            }
        };
        one("decode", decode, self.times.decode)?;
        let both = self.times.decode.is_some();
        one(if both { "; prompts" } else { "prompts" }, prompts, self.times.prompts)
    }
}

/// As `--json` prints it.
#[derive(Serialize)]
pub struct ChosenJson {
    recommended: String,
    /// Milliseconds of a step of some layers with the recommended type, and with f32.
    decode_ms: Option<Pair>,
    prompt_ms: Option<Pair>,
    remembered: bool,
}

impl From<&Chosen> for ChosenJson {
    fn from(c: &Chosen) -> Self {
        ChosenJson {
            recommended: c.recommended.to_string(),
            decode_ms: c.times.decode,
            prompt_ms: c.times.prompts,
            remembered: c.remembered,
        }
    }
}

/// Gives the options, which have the recommended activation types, the faster ones. Without an answer they stay as they
/// are: the device is not timed, or it cannot run the layers that it would be timed with.
pub fn choose(
    checkpoint: &Checkpoint<'_>,
    device: &Arc<dyn Device>,
    options: &mut ModelOptions,
) -> Option<Chosen> {
    choose_by(TIMES, checkpoint, device, options)
}

/// As [`choose`], by times that are kept in another file of the cache's folder.
pub fn choose_by(
    file: &str,
    checkpoint: &Checkpoint<'_>,
    device: &Arc<dyn Device>,
    options: &mut ModelOptions,
) -> Option<Chosen> {
    let recommended = options.activations;
    let choice = Choice::new(checkpoint, device, options).ok()??;
    let key = choice.key().to_owned();
    let kept = remembered(file, &key);
    let mut run = pin!(choice.times(kept.as_deref(), &milliseconds));
    let (times, measured) = block_on(|cx| run.as_mut().poll(cx)).ok()?;
    if measured {
        // Where it cannot be kept it is timed again.
        let _ = remember(file, key, times.to_string());
    }
    options.activations = times.choose(recommended);
    Some(Chosen { recommended, times, remembered: !measured })
}
