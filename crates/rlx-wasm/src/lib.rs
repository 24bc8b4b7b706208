//! RLX in a page: what the TypeScript package calls.
//!
//! With the feature `chat` one class, [`RlxEngine`]: a language model on a device; in the threaded builds
//! also what a worker calls to be one of the CPU's threads. With `graphs` one class, [`RlxSession`]: any
//! other network. The package ships a build of each, so that a page for chat does not fetch the other.
//!
//! Faults are thrown as JSON text. Every method returns at once or gives a promise; no borrow outlives a
//! poll, so `cancel` may be called while a promise is pending.
//!
//! A panic is a trap, after which the module's instance is not used again: `js/src/instance.ts` catches
//! it, whoever called, and settles what is pending.
#![cfg(target_arch = "wasm32")]
// A page's executors stay on its thread, and are held as the core holds any.
#![allow(clippy::arc_with_non_send_sync)]

#[cfg(feature = "chat")]
mod engine;
mod executor;
mod fault;
mod gpu;
#[cfg(feature = "graphs")]
mod network;
mod panic;
mod placing;
mod request;
#[cfg(feature = "graphs")]
mod session;
#[cfg(feature = "graphs")]
mod state;
mod wait;
#[cfg(target_feature = "atomics")]
mod worker;

#[cfg(feature = "chat")]
pub use engine::RlxEngine;
#[cfg(feature = "graphs")]
pub use session::RlxSession;
