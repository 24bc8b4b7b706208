//! RLX's CPU executor: a program's steps on SIMD kernels that read packed weights as they are.
//!
//! ```text
//! device.rs    Device: models, programs, sessions, tickets; work happens in `poll`
//! target.rs    the target that the compiler plans for: limits, fusions, and the kernels' own claims
//! program.rs   a program's steps with kernels picked and places checked
//! run.rs       one pass over the steps by one or more workers, and their views of memory (unsafe, fenced)
//! turns.rs     which worker does which share of which step
//! dispatch.rs  steps outside a program, products.rs products outside one: for benches
//! pool.rs      worker threads that spin between submissions (native, feature `threads`)
//! page_pool.rs web workers that help with a run (wasm built with atomics)
//! aligned_bytes.rs  zeroed bytes that start on a cache line
//! layout.rs    which weights are stored as panels, and their conversion
//! panel.rs     panels: 16 rows of a weight, interleaved word by word
//! formats/     packed formats as programs over the rows of a panel
//! kernels/     one file an operator; weights.rs, int8/ and dense.rs are the inside of matmul
//! simd/        levels: scalar, AVX2, AVX-512 VNNI, NEON (with dotprod or without), wasm simd128 (unsafe, fenced)
//! written_out.rs  loops of a fixed length, written out by macros
//! ```
//!
//! Native: workers go through the step list together and claim shares of each step. Between steps they
//! spin, then park; nobody waits for a worker that has claimed nothing. One worker computes all of a
//! result's element in a fixed order, so results do not depend on the number of threads.
//! Wasm: the page's thread works inside `poll`, in slices of at most 50 ms by the given clock, and never
//! waits; in a build with atomics web workers help.
//!
//! A GPU is faster; this crate is for pages without WebGPU, for servers, tests, and the command line.

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
mod place;
#[cfg(all(feature = "threads", not(target_family = "wasm")))]
mod pool;
pub mod products;
mod program;
mod run;
mod simd;
mod target;
#[cfg(not(target_family = "wasm"))]
mod times;
mod turns;
mod view;
mod written_out;

pub use device::{CpuDevice, CpuOptions};
pub use simd::Level;
pub use target::target;

/// Unit tests of private modules, which `tests/internals.rs` runs: a build of this crate for them alone takes minutes.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::aligned_bytes::tests as aligned_bytes;
    #[cfg(all(feature = "threads", not(target_family = "wasm")))]
    pub use crate::dispatch::tests as dispatch;
    #[cfg(feature = "graphs")]
    pub use crate::kernels::elementwise::layout::tests as layout;
    #[cfg(feature = "graphs")]
    pub use crate::kernels::product::tests as product;
    pub use crate::panel::tests as panel;
    #[cfg(all(feature = "threads", not(target_family = "wasm")))]
    pub use crate::turns::tests as turns;
    pub use crate::view::tests as view;
}
