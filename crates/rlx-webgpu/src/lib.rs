//! The WebGPU executor: WGSL kernels, printed per program, behind a small trait over a GPU.
//!
//! [`gpu::Gpu`] is what a WebGPU host offers (buffers, pipelines, recorded lists, reads);
//! [`gpu::native::NativeGpu`] is one over wgpu, `rlx-wasm` has one over the browser's. [`kernels`]
//! turns a step of a program into WGSL, step constants and a launch; [`device::WebGpuDevice`] is
//! [`rlx_core::runtime::device::Device`] over both.
//!
//! Invariants: a program's commands are recorded once and replayed for every token, one queue
//! submission each (a prompt's may be several); nothing is allocated per step but readback buffers,
//! which are reused; of WebGPU's optional features kernels use subgroups alone, and have a form
//! without them.

pub mod device;
pub mod gpu;
pub mod kernels;
mod target;
pub mod tuning;

pub use device::WebGpuDevice;
pub use target::{DEFAULT_LIMITS, target};
pub use tuning::Tuning;
