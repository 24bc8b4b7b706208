//! Running networks: the device trait, sessions, the engine of language models, the self-test of devices, and what
//! they are timed with to choose among them and among their kernels.

pub mod choice;
pub mod device;
#[cfg(feature = "encoders")]
pub mod embed;
#[cfg(feature = "text")]
pub mod generate;
#[cfg(all(feature = "vision", feature = "encoders", feature = "jinja"))]
pub mod imagine;
pub mod memory;
pub mod model;
// Words are a prompt too.
#[cfg(all(feature = "vision", feature = "text"))]
pub mod segment;
pub mod selftest;
pub mod session;
#[cfg(feature = "vision")]
pub mod track;
#[cfg(feature = "audio")]
pub mod transcribe;
pub mod trial;
pub mod work;
