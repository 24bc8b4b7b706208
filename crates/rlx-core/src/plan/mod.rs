//! Weight plan and memory plan: every byte a program touches has an address here.

mod arena;
pub mod check;
mod fingerprint;
mod lifetimes;
mod liveness;
#[cfg(feature = "reference")]
pub mod replay;
mod schedule;
mod weights;

pub use arena::ALIGNMENT;
pub(crate) use fingerprint::Hasher;
pub use schedule::plan;
pub use weights::{Buffer, Entry, HostTensor, Origin, WeightPlan};
