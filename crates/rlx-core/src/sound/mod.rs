//! Sounds, as models that hear take them: samples of one channel at the rate of the model. And what such a
//! model says of each frame, as text.

mod ctc;
mod folder;
mod processor;
mod resample;
mod text_stream;

pub use ctc::{CtcDecoding, CtcVocabulary, VocabularyFiles, Word};
pub use processor::{SoundProcessor, one_channel};
pub use resample::Resampler;
