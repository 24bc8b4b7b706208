//! How an operator is defined: what its file says and is written with.
//!
//! ```text
//! operator        what a file says: the trait of an operator
//! attr, field     attributes, and how the fields of a struct become them
//! op              any operator: the rows of the table as one type
//! custom          operators that users bring
//!
//! rules           type rules: how many operands, of which kind, element type and axes
//! broadcast       type rules: operands that repeat to one shape
//! control_block   type rules: the states that every language model has
//! bodies          type rules: regions of control flow
//! slide           type rules: positions of a window
//! recurrence      operators that go along a sequence
//! writing         decompositions: one call an operator, and forms that several share
//! ```

pub(super) mod attr;
pub(crate) mod bodies;
pub(super) mod broadcast;
pub(crate) mod control_block;
pub(super) mod custom;
pub(crate) mod field;
pub(super) mod op;
pub(super) mod operator;
pub(super) mod recurrence;
pub(super) mod rules;
#[cfg(any(feature = "vision", feature = "audio"))]
pub(super) mod slide;
pub(super) mod writing;
