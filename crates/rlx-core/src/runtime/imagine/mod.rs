//! Pictures of prompts: the models of a FLUX.2 klein pipeline, one after the other.
//!
//! ```text
//! prompt ─ chat template, tokens ─▶ text encoder ─ rows ─▶ transformer, step by step ─ latents ─▶ decoder ─▶ picture
//! ```
//!
//! Each arrow between models is bytes of the host, so one model is on the device at a time, and memory holds the
//! largest of them and not all: [`Imagining::needs`] says which one is next, and the caller loads it. Between steps
//! latents stay on the device.
//!
//! A preview of a step is decoded as the picture is: other than the decoder nothing says which colours latents stand
//! for. So whoever wants previews has the decoder beside the transformer, with the memory of its activations, and
//! waits for it in every step.

mod files;
mod imagining;
mod models;
mod pipeline;

pub use files::{Part, PipelineFiles};
pub use imagining::{Imagined, Imagining};
pub use models::Models;
pub use pipeline::Pipeline;

use alloc::vec::Vec;

/// Pixels along an edge at most: four times what the models were trained with.
pub const LONGEST: u64 = 4096;

/// Pixels along an edge where nobody says how many.
pub const USUAL_SIZE: u64 = 1024;

/// What a picture is made of beside its prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct ImagineOptions {
    /// Pixels in a row.
    pub width: u64,
    /// Rows of pixels.
    pub height: u64,
    /// Steps from noise to picture; `None`: as many as the pipeline is made for.
    pub steps: Option<u64>,
    /// Chooses the noise: a seed gives the same on every device.
    pub seed: u64,
    /// How strongly the prompt is preferred to no prompt, above 1; `None`: 4. A distilled pipeline takes none.
    pub guidance: Option<f32>,
    /// The latents to begin with in place of noise, `[latents, channels]`.
    pub latents: Option<Vec<f32>>,
    /// Whether every step but the last is decoded too.
    pub preview: bool,
}

impl Default for ImagineOptions {
    fn default() -> Self {
        ImagineOptions {
            width: USUAL_SIZE,
            height: USUAL_SIZE,
            steps: None,
            seed: 0,
            guidance: None,
            latents: None,
            preview: false,
        }
    }
}
