//! What a model's maker did to sounds before the model heard them: `preprocessor_config.json`.

use crate::error::{Error, Result};
use crate::math;
use crate::models::Keys;
use crate::safetensors::json::Json;
use alloc::format;
use alloc::vec::Vec;

/// Added to the variance, so that silence is divided by something.
const EPS: f64 = 1e-7;

/// Makes a model's input of a sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoundProcessor {
    /// Samples a second that the model hears.
    pub rate: u32,
    /// Whether a sound gets mean 0 and variance 1.
    pub normalise: bool,
}

impl Default for SoundProcessor {
    /// What a folder that says nothing means: 16,000 samples a second, mean 0 and variance 1.
    fn default() -> Self {
        SoundProcessor { rate: 16_000, normalise: true }
    }
}

impl SoundProcessor {
    /// Reads every key of a `preprocessor_config.json`, or of the `feature_extractor` in a
    /// `processor_config.json`, which newer folders have. `file` is its name in errors.
    ///
    /// # Errors
    /// `BadFile` for what is no JSON object and for values that make no sense; `Unsupported` for what does other
    /// things to sounds, and for keys that this version does not know.
    pub fn read(text: &[u8], file: &str) -> Result<Self> {
        const NESTED: &str = "feature_extractor";
        let json = Json::parse(text, file, 0)?;
        let whole = Keys::json(&json, file)?;
        // What only programs in Python read.
        whole.inert(&["processor_class", "auto_map"]);
        let keys = whole.object(NESTED)?.unwrap_or_else(|| whole.clone());
        keys.inert(&["processor_class"]);
        // Of batches: here every sound is heard alone, without padding.
        keys.inert(&["padding_value", "padding_side", "return_attention_mask"]);
        const KIND: &str = "feature_extractor_type";
        if let Some(other) = keys.opt_str(KIND)?.filter(|&k| k != "Wav2Vec2FeatureExtractor") {
            let what = format!("{KIND} `{other}` is not supported");
            return Err(keys.unsupported(KIND, what, "supported: Wav2Vec2FeatureExtractor"));
        }
        keys.neutral(&[("feature_size", 1.0, "gives a model several numbers a sample")])?;
        let usual = Self::default();
        let rate = keys.opt_positive("sampling_rate")?.and_then(|n| u32::try_from(n).ok());
        let processor = SoundProcessor {
            rate: rate.unwrap_or(usual.rate),
            normalise: keys.opt_bool("do_normalize")?.unwrap_or(usual.normalise),
        };
        whole.finish()?;
        Ok(processor)
    }

    /// The numbers that a model reads of a sound, or of a piece of one.
    ///
    /// # Errors
    /// `BadFile` for samples that are no finite numbers.
    pub fn prepare(&self, sound: &[f32]) -> Result<Vec<f32>> {
        if let Some(at) = sound.iter().position(|x| !x.is_finite()) {
            let what = format!("sample {at} of a piece of the sound is no finite number");
            return Err(Error::bad_file(what).hint("the file is damaged"));
        }
        if !self.normalise || sound.is_empty() {
            return Ok(sound.to_vec());
        }
        // In f64: sums of f32 would lose what many quiet samples are.
        let n = sound.len() as f64;
        let mean = sound.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let square = |x: f64| x * x;
        let variance = sound.iter().map(|&x| square(f64::from(x) - mean)).sum::<f64>() / n;
        let by = math::sqrt(variance + EPS);
        Ok(sound.iter().map(|&x| ((f64::from(x) - mean) / by) as f32).collect())
    }
}

/// Adds to `out` the mean of the channels of each sample. `sound` has the channels of a sample beside each other;
/// a last sample that lacks channels is left out, and without a channel there is nothing.
pub fn one_channel(sound: &[f32], channels: usize, out: &mut Vec<f32>) {
    match channels {
        0 => {}
        1 => out.extend_from_slice(sound),
        _ => {
            out.extend(sound.chunks_exact(channels).map(|c| c.iter().sum::<f32>() / c.len() as f32))
        }
    }
}
