//! How an operator is defined: what its file says and is written with.
//!
//! ```text
//! operator        the trait of an operator, and what it decomposes into
//! attr, field     attributes, and how fields of a struct become them
//! custom          operators that users bring
//! writing         short forms of decompositions
//! recurrence      what operators share that go along a sequence
//! bodies          what control flow shares
//! slide           positions of a window
//! ```

pub(super) mod attr;
pub(super) mod bodies;
pub(super) mod custom;
pub(crate) mod field;
pub(super) mod operator;
pub(super) mod recurrence;
#[cfg(any(feature = "vision", feature = "audio"))]
pub(super) mod slide;
pub(super) mod writing;
