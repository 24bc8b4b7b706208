//! RLX's CPU executor: a program's steps on SIMD kernels that read packed weights as they are.
//!
//! ```text
//! device.rs    Device: models, programs, sessions, tickets; work happens in `poll`
//! target.rs    what the compiler is told: limits, fusions, and the kernels' own claims
//! program.rs   a program's steps with kernels picked and places checked
//! run.rs       one pass over the steps by one or more workers; the views they get (unsafe, fenced)
//! turns.rs     which worker does which share of which step
//! dispatch.rs  steps outside a program, products.rs products outside one: for benches
//! pool.rs      hot worker threads (native, feature `threads`)
//! page_pool.rs web workers that walk along (wasm built with atomics)
//! aligned_bytes.rs  zeroed bytes that start on a cache line
//! layout.rs    which weights stand in panels, and how they come there
//! panel.rs     panels: 16 rows of a weight, word by word
//! formats/     packed formats as programs over the rows of a panel
//! kernels/     one file an operator; weights.rs, int8/ and dense.rs are the inside of matmul
//! simd/        levels: scalar, AVX2, AVX-512 VNNI, NEON (with dotprod or without), wasm simd128 (unsafe, fenced)
//! written_out.rs  loops of a fixed length, written out by macros
//! ```
//!
//! Native: workers walk the step list together and claim shares of each step; between steps they
//! spin, then park, and nobody waits for one that has claimed nothing. A result's element is always
//! computed whole by one worker in one order, so results do not depend on the number of threads.
//! Wasm: the page's thread works inside `poll`, in slices of at most 50 ms by the clock it is given,
//! and never waits; in a build with atomics web workers walk along.
//!
//! A GPU wins wherever there is one; this crate is for pages without WebGPU, for servers, tests,
//! and the command line.

mod aligned_bytes;
mod device;
#[cfg(all(feature = "threads", not(target_family = "wasm")))]
pub mod dispatch;
mod formats;
mod kernels;
mod layout;
#[cfg(all(target_family = "wasm", target_feature = "atomics"))]
pub mod page_pool;
mod panel;
#[cfg(all(feature = "threads", not(target_family = "wasm")))]
mod pool;
pub mod products;
mod program;
mod run;
mod simd;
mod target;
mod turns;
mod written_out;

pub use device::{CpuDevice, CpuOptions};
pub use simd::Level;
pub use target::target;
