//! Running networks: the device trait, sessions; of language models the engine, and what proves a device.

pub mod device;
#[cfg(feature = "text")]
pub mod embed;
#[cfg(feature = "text")]
pub mod generate;
pub mod memory;
pub mod model;
pub mod selftest;
pub mod session;
pub mod work;
