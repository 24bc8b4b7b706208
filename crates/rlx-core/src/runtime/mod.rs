//! Running networks: the device trait, loading, sessions; of language models the generation machine and
//! the engine.

pub mod check;
pub mod device;
#[cfg(feature = "text")]
pub mod embed;
#[cfg(feature = "text")]
pub mod engine;
#[cfg(feature = "text")]
pub mod generate;
pub mod load;
pub mod memory;
pub mod model;
pub mod network;
#[cfg(feature = "text")]
pub mod pacing;
#[cfg(feature = "text")]
pub mod restore;
pub mod selftest;
pub mod session;
pub mod shared;
pub mod table;
pub mod twin;
#[cfg(feature = "text")]
pub mod window;
pub mod work;
