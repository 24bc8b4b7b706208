//! Weight plan and memory plan: every byte a program touches has an address here.

mod arena;
mod fingerprint;
mod liveness;
mod schedule;
mod target;
mod weights;

pub use arena::ALIGNMENT;
pub use schedule::plan;
pub use target::{Activations, Fusions, Limits, Options, Target};
pub use weights::{Buffer, Entry, HostTensor, Origin, WeightPlan};
