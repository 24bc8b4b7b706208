//! RLX on this machine: model files by memory map, the devices there are, and the `rlx` command
//! line.
//!
//! ```text
//! files ─ headers ─▶ core: compile ─▶ load ─ maps ─▶ a device ─▶ core: engine
//!                                                      ▲
//!                                  devices ── block_on ┘ drives core's polls on this thread
//! ```
//!
//! Everything that answers a question lives in `rlx-core` and the executors; this crate opens
//! files, reads the clock, parks the thread and prints.

pub mod bench;
pub mod block_on;
pub mod cli;
pub mod devices;
pub mod files;
pub mod load;
pub mod platform;
pub mod verify;
