//! Families: what they read of a checkpoint, what they refuse, and recorded models that they build.
#![cfg(feature = "reference")]

pub mod checkpoints;
mod decoders;
mod encoders;
#[cfg(feature = "vision")]
mod imagine;
#[cfg(feature = "text")]
mod minilm;
#[cfg(feature = "encoders")]
mod modernbert;
#[cfg(all(feature = "vision", feature = "encoders", feature = "jinja"))]
mod pictures;
mod prompts;
#[cfg(feature = "vision")]
mod sam;
#[cfg(feature = "vision")]
mod sam2;
mod sam2_video;
#[cfg(feature = "vision")]
mod sam3;
#[cfg(feature = "vision")]
mod segment;
#[cfg(feature = "audio")]
mod sounds;
mod strict;
#[cfg(feature = "audio")]
mod transcribe;
#[cfg(all(feature = "vision", feature = "encoders"))]
mod vision;
#[cfg(feature = "text")]
mod wordpiece;
