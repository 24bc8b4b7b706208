//! RLX's compiler core.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod error;
pub mod math;
pub mod sample;
pub mod types;

pub use error::{Code, Error, Result};
