//! What the command line does besides answering: measure, prove, and make model files.

pub mod bench;
pub mod convert;
pub mod copies;
pub mod fidelity;
pub mod kernel_times;
pub mod mix;
pub mod profile;
pub mod quantize;
pub mod shards;
pub mod synth;
pub mod verify;
