//! Families: what they read of a checkpoint, what they refuse, and recorded models that they build.
#![cfg(feature = "reference")]

pub mod checkpoints;
mod decoders;
mod encoders;
#[cfg(feature = "vision")]
mod imagine;
#[cfg(feature = "text")]
mod minilm;
mod strict;
#[cfg(feature = "text")]
mod wordpiece;
