//! RLX's compiler core.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod error;
pub mod ir;
pub mod lower;
pub mod math;
pub mod ops;
pub mod passes;
pub mod plan;
#[cfg(feature = "reference")]
pub mod reference;
pub mod runtime;
pub mod sample;
pub mod types;

pub use error::{Code, Error, Result};
