//! Running a language model: the device trait, loading, the generation machine, the engine.

pub mod check;
pub mod device;
#[cfg(feature = "text")]
pub mod engine;
#[cfg(feature = "text")]
pub mod generate;
pub mod load;
pub mod memory;
pub mod model;
#[cfg(feature = "text")]
pub mod pacing;
#[cfg(feature = "text")]
pub mod restore;
pub mod selftest;
pub mod table;
pub mod twin;
#[cfg(feature = "text")]
pub mod window;
pub mod work;
