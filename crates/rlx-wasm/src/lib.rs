//! RLX in a page: the wasm module that the TypeScript package calls.
//!
//! The feature `chat` has the class `RlxEngine`: a language model on a device; in the threaded builds
//! also the function with which a worker becomes one of the CPU's threads. The feature `graphs` has the
//! class `RlxSession`: any other network. The package ships a build of each, so that a page for chat does
//! not fetch the other.
//!
//! Errors are thrown as JSON text. Every method returns at once or gives a promise; no borrow outlives a
//! poll, so `cancel` may be called while a promise is pending.
//!
//! A panic is a trap, after which the module's instance is not used again: `js/src/instance.ts` catches
//! every trap and rejects pending promises.
#![cfg(target_arch = "wasm32")]
// A page's executors stay on its thread; an `Arc` holds them because the core's types ask for one.
#![allow(clippy::arc_with_non_send_sync)]

mod answer;
#[cfg(feature = "chat")]
mod call;
#[cfg(feature = "chat")]
mod engine;
mod executor;
mod fault;
#[cfg(feature = "chat")]
mod files;
#[cfg(feature = "chat")]
mod form;
mod gpu;
#[cfg(feature = "graphs")]
mod hearing;
#[cfg(feature = "graphs")]
mod imagine;
#[cfg(feature = "graphs")]
mod inspect;
#[cfg(feature = "chat")]
mod likely;
#[cfg(feature = "graphs")]
mod network;
mod panic;
mod placing;
mod readers;
mod request;
#[cfg(feature = "graphs")]
mod segment;
#[cfg(feature = "graphs")]
mod session;
#[cfg(feature = "graphs")]
mod state;
#[cfg(feature = "graphs")]
mod trace;
#[cfg(feature = "chat")]
mod trial;
mod wait;
#[cfg(target_feature = "atomics")]
mod worker;

#[cfg(feature = "chat")]
pub use engine::RlxEngine;
#[cfg(feature = "graphs")]
pub use session::RlxSession;
