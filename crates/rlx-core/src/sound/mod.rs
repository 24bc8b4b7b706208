//! Sounds, as models that hear take them: samples at the rate of the model.

mod resample;

pub use resample::Resampler;
