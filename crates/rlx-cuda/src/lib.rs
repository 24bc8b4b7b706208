//! The CUDA executor: planned programs as lists of launches over device memory.
//!
//! Kernels are CUDA C text, one file an operator, with what is constant of a step written in front of it; they are
//! compiled for the card when a program is built. [`driver::Driver`] is what the executor needs of a GPU: NVIDIA's
//! driver ([`driver::cuda`]), AMD's ([`driver::hip`]), or an emulator on the CPU that tests use (feature `emulator`).

pub mod device;
pub mod driver;
pub mod group;
mod kernels;
mod target;

pub use device::CudaDevice;
pub use target::{rocm_target, target};
