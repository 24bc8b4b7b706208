//! The MLX executor: programs as graphs of array calls, which MLX computes on the CPU, on Apple's GPUs or on CUDA.
//!
//! MLX has a C++ interface without a stable binary form. `shim` compiles one C++ file of our own against the headers of
//! the MLX that is installed, and loads it. `lower` turns a program's graph into a tape that it runs. Packed weights
//! take MLX's own layout when they are loaded (`weights`).

mod backend;
mod lower;
mod shim;
mod tape;
mod target;
mod weights;

pub use backend::{Mlx, Options, open};
pub use shim::find::{Installed, find, find_in};
pub use target::target;
