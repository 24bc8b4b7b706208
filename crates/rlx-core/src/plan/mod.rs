//! Weight plan and memory plan: every byte a program touches has an address here.

mod target;
mod weights;

pub use target::{Activations, Fusions, Limits, Target};
pub use weights::{Buffer, Entry, Origin, WeightPlan};
