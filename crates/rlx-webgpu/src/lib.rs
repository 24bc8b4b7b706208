//! The WebGPU executor: WGSL kernels, printed per program, behind a small trait over a GPU.
//!
//! [`gpu::Gpu`] is a WebGPU host (buffers, pipelines, recorded lists, reads): [`gpu::native::NativeGpu`]
//! uses wgpu, `rlx-wasm` the browser. [`kernels`] turns a step of a program into WGSL, step constants
//! and a launch. [`device::WebGpuDevice`] implements [`rlx_core::runtime::device::Device`] with both.
//!
//! Invariants: a program's commands are recorded once and replayed for every token, with one queue
//! submission each (a prompt may have several). Running a step allocates only readback buffers, which
//! are reused. Subgroups are the only optional feature of WebGPU that kernels use, and every kernel has a
//! form without them.

#[macro_use]
mod wgsl;

pub mod device;
pub mod gpu;
pub mod kernels;
mod target;
pub mod tuning;

pub use device::WebGpuDevice;
pub use target::{DEFAULT_LIMITS, target};
pub use tuning::Tuning;
