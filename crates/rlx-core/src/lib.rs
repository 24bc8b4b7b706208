//! RLX's compiler core: from a model's description to a planned program, and what runs one.
//!
//! ```text
//! bytes -> gguf | safetensors -> models -> ir::hir -> lower -> ir::mir -> passes -> plan -> ir::lir
//! text  -> text (tokenizer, template)      runtime: load, generate, engine over any Device
//! ```
//!
//! **Invariants.** This crate opens no file, starts no thread, reads no clock, no environment and no
//! global; it has no `unsafe`; it depends on no executor. Passes and the planner ask a
//! [`Target`](target::Target), whatever its name. A module uses only those before it in the list
//! below, but for the exceptions that `tests/tidy.rs` names with their reasons.
#![no_std]
#![forbid(unsafe_code)]
// Where executors stay on one thread they are held as those that need not: see `runtime::device::shared`.
#![cfg_attr(
    not(all(feature = "std", not(target_family = "wasm"))),
    allow(clippy::arc_with_non_send_sync)
)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

// Under its own name too, for the file of targets that tests here and in `tests/` share.
#[cfg(test)]
extern crate self as rlx_core;
#[cfg(test)]
#[path = "../tests/support/targets.rs"]
mod targets;

pub mod compare;
pub mod error;
pub mod math;
pub mod nearest;
pub mod order;
pub(crate) mod sorted;
pub mod types;

pub mod formats;

pub mod ops;

pub mod ir;

pub mod target;

pub mod profile;

pub mod lower;
pub mod plan;

pub mod passes;

// Before the oracle, whose `sample` is this integer arithmetic.
pub mod sample;

pub mod reference;

mod intake;

pub mod gguf;
pub mod safetensors;
#[cfg(feature = "text")]
pub mod text;

pub mod models;

// Behind the models, whose reader of keys it uses.
#[cfg(feature = "vision")]
pub mod image;
#[cfg(feature = "audio")]
pub mod sound;
pub mod weights;

pub mod compile;

pub mod runtime;

pub use error::{Code, Error, Result};

/// The examples of the guides run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/operator.md")]
#[doc = include_str!("../../../docs/guides/pass.md")]
pub mod guides {}
