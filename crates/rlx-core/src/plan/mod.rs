//! Weight plan and memory plan: every byte a program touches has an address here.
//!
//! ```text
//! graph ── constants: which values are weights of their own ── liveness: what shares memory ──▶
//!       ── arena, search: offsets ── parts: steps over large weights ── schedule: the program
//! ```

mod arena;
mod at_run;
pub mod check;
mod check_rows;
mod closed;
mod constants;
mod fingerprint;
mod lifetimes;
mod live;
mod liveness;
mod packed;
#[cfg(feature = "reference")]
mod part;
mod parts;
mod picture;
#[cfg(feature = "reference")]
pub mod replay;
mod schedule;
mod search;
#[cfg(feature = "parallel")]
mod share;
mod weights;

pub use arena::ALIGNMENT;
pub use at_run::{at_run, plan_bounded};
pub use closed::{Closed, closed};
pub(crate) use constants::{at_load, tables};
pub(crate) use fingerprint::Hasher;
pub use fingerprint::hash;
pub use packed::{Located, PACKED, Packed, Packing};
pub use picture::picture;
pub use schedule::plan;
#[cfg(feature = "parallel")]
pub use share::{Rows, Share};
pub use weights::{Buffer, Entry, HostTensor, Origin, Piece, WeightPlan};
