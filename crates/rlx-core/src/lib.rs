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
pub mod runtime;
#[cfg(feature = "text")]
pub mod text;
pub mod types;

pub use error::{Code, Error, Result};
