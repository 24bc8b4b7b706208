//! RLX in a page: what the TypeScript package calls.
//!
//! One class, [`RlxEngine`]: a model on a device; in the threaded builds also what a worker calls to
//! be one of the CPU's threads. Faults are thrown as JSON text.
//! Every method returns at once or gives a promise; no borrow of the engine outlives a poll, so
//! `cancel` may be called while a promise is pending.
//!
//! A panic is a trap, after which the module's instance is not used again: `js/src/instance.ts` catches
//! it, whoever called, and settles what is pending.
#![cfg(target_arch = "wasm32")]

mod engine;
mod fault;
mod gpu;
mod panic;
mod request;
mod wait;
#[cfg(target_feature = "atomics")]
mod worker;

pub use engine::RlxEngine;
