//! The times at which a flow is looked at on its way from noise to an image: Euler's method over a rectified flow
//! (arXiv:2209.03003), whose times are shifted to the noisy end the more, the more latents an image has
//! (arXiv:2403.03206, section 5.3.2).

use super::diffusers;
use super::keys::Keys;
use crate::error::{Error, Result};
use crate::math;
use crate::safetensors::json::Json;
use alloc::format;
use alloc::vec::Vec;

/// Steps at most: as many as a model knows times.
const MOST_STEPS: u64 = 1000;

/// What a pipeline's `scheduler_config.json` says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowMatch {
    /// The shift where it does not follow the size of the image, above 0.
    pub shift: f32,
    /// Whether it does.
    pub dynamic: bool,
    /// What a model's own count of times is for the time 1.
    pub times: f32,
}

impl FlowMatch {
    /// Reads the file's object. `at` names it in errors.
    ///
    /// # Errors
    /// `BadFile` for a mistyped key; `Unsupported` for another scheduler, and for a key or a value that this version
    /// does not know.
    pub fn open(config: &Json, at: &str) -> Result<Self> {
        let keys = Keys::json(config, at)?;
        diffusers::common(&keys);
        for (key, known) in
            [("_class_name", "FlowMatchEulerDiscreteScheduler"), ("time_shift_type", "exponential")]
        {
            if let Some(other) = keys.opt_str(key)?.filter(|&word| word != known) {
                let what = format!("{key} `{other}` is not supported");
                return Err(keys.unsupported(key, what, &format!("supported: {known}")));
            }
        }
        // FLUX.2 has a rule of its own for the shift of an image's size, without these.
        keys.inert(&["base_image_seq_len", "base_shift", "max_image_seq_len", "max_shift"]);
        keys.neutral(&[
            ("invert_sigmas", 0.0, "runs times backwards"),
            ("stochastic_sampling", 0.0, "adds noise in every step"),
            ("use_beta_sigmas", 0.0, "chooses other times"),
            ("use_exponential_sigmas", 0.0, "chooses other times"),
            ("use_karras_sigmas", 0.0, "chooses other times"),
        ])?;
        if keys.has("shift_terminal") {
            let what = "shift_terminal stretches the times, which is not supported";
            return Err(keys.unsupported("shift_terminal", what, "use a scheduler without it"));
        }
        let schedule = FlowMatch {
            shift: keys.opt_above_zero("shift")?.unwrap_or(1.0),
            dynamic: keys.opt_bool("use_dynamic_shifting")?.unwrap_or(false),
            times: keys.opt_above_zero("num_train_timesteps")?.unwrap_or(1000.0),
        };
        keys.finish()?;
        Ok(schedule)
    }

    /// Times from 1, noise, to 0, an image: one more than steps. `latents` is how many an image has.
    ///
    /// # Errors
    /// `Usage` for no step and for more than 1,000.
    pub fn sigmas(&self, latents: u64, steps: u64) -> Result<Vec<f32>> {
        if steps == 0 || steps > MOST_STEPS {
            let what = format!("{steps} steps: 1 to {MOST_STEPS} are possible");
            return Err(Error::usage(what));
        }
        // 1, (n - 1) / n, .., 1 / n, shifted: `a / (a + 1 / t - 1)` with `a = exp(mu)`, or a itself.
        let a = match self.dynamic {
            // Bounded, so that a picture of any size has times that are numbers.
            true => math::exp(mu(latents, steps)).min(1e30) as f32,
            false => self.shift,
        };
        let even = |i: u64| (1.0 - i as f64 / steps as f64) as f32;
        let shifted = |t: f32| a / (a + (1.0 / t - 1.0));
        Ok((0..steps).map(|i| shifted(even(i))).chain([0.0]).collect())
    }

    /// The same as a model counts them, without the last.
    ///
    /// # Errors
    /// As [`sigmas`](Self::sigmas).
    pub fn timesteps(&self, latents: u64, steps: u64) -> Result<Vec<f32>> {
        let sigmas = self.sigmas(latents, steps)?;
        Ok(sigmas[..sigmas.len() - 1].iter().map(|s| s * self.times).collect())
    }
}

/// The logarithm of the shift, as FLUX.2's makers measured it: a line in the number of latents for 10 steps and one
/// for 200, and between them a line in the number of steps. Large images have the line of 200 steps.
fn mu(latents: u64, steps: u64) -> f64 {
    let n = latents as f64;
    let many = 0.00016927 * n + 0.45666666;
    if latents > 4300 {
        return many;
    }
    let few = 8.73809524e-05 * n + 1.89833333;
    let slope = (many - few) / 190.0;
    many + slope * (steps as f64 - 200.0)
}
