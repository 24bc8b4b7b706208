//! The XLA executor: programs as StableHLO, compiled and run by a PJRT plugin. TPUs have one (libtpu), and so has the
//! CPU, on which the same texts are tested.

mod device;
mod group;
pub mod lower;
mod meeting;
pub mod pjrt;
mod target;

pub use device::{Compiled, Pjrt, Tensor, open, open_at};
pub use group::group;
pub use target::{cpu_target, cuda_target, target};
