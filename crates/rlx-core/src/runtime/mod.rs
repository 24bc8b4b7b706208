//! Running a language model: the device trait, loading, the generation machine, the engine.

pub mod device;
#[cfg(feature = "text")]
pub mod engine;
#[cfg(feature = "text")]
pub mod generate;
pub mod load;
pub mod memory;
pub mod model;
pub mod selftest;
pub mod table;
pub mod twin;
