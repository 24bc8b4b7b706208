//! RLX's CPU executor: a program's steps on SIMD kernels that read packed weights as they are.
//!
//! ```text
//! device.rs    Device: models, programs, sessions, tickets; work happens in `poll`
//! program.rs   a program's steps with kernels picked and places checked
//! run.rs       one pass over the steps by one or more workers; the views they get (unsafe, fenced)
//! barrier.rs   where workers meet between steps: spin, then park
//! pool.rs      hot worker threads (native, feature `threads`)
//! memory.rs    zeroed, aligned bytes
//! kernels/     one file an operator; packed.rs and tile.rs are the inside of matmul
//! simd/        levels: scalar, AVX2, AVX-512 VNNI, NEON, wasm simd128 (unsafe, fenced)
//! ```
//!
//! Native: workers walk the step list together, each taking its slice of every step; a step costs
//! one barrier. A result's element is always computed whole by one worker in one order, so
//! results do not depend on the number of threads. Wasm: one thread works inside `poll`, in
//! slices of at most 50 ms by the clock it is given.
//!
//! A GPU wins wherever there is one; this crate is for pages without WebGPU, for servers, tests,
//! and the command line.

mod barrier;
mod device;
pub mod kernels;
mod memory;
#[cfg(all(feature = "threads", not(target_family = "wasm")))]
mod pool;
mod program;
mod run;
mod simd;

pub use device::{CpuDevice, CpuOptions};
pub use simd::Level;
