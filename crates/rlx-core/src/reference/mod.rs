//! The oracle: plain loops that say what an operator or a format means.
//!
//! Values are f32 where the program stores them and f64 in between, so a fused operator gives the
//! same bits as the ones it stands for. [`run`] is one step, [`interpret`] a whole graph without
//! any plan, [`device::ReferenceDevice`] replays planned programs. Those need the feature
//! `reference`; what makes weights ([`make`]) is always there.

pub mod make;

#[cfg(feature = "reference")]
pub mod device;
#[cfg(feature = "reference")]
mod execute;
#[cfg(feature = "reference")]
mod index;
#[cfg(feature = "reference")]
mod interpret;
#[cfg(feature = "reference")]
mod ops;
#[cfg(feature = "reference")]
mod view;

#[cfg(all(test, feature = "reference"))]
mod decompositions;
#[cfg(all(test, feature = "reference"))]
mod testing;
#[cfg(all(test, feature = "reference"))]
mod type_rules;

#[cfg(feature = "reference")]
use execute::{Run, arity, view};
#[cfg(feature = "reference")]
pub use execute::{run, run_regions};
#[cfg(feature = "reference")]
pub use interpret::{Interpreted, interpret};
#[cfg(feature = "reference")]
pub use view::View;
