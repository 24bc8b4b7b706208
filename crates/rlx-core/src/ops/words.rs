//! Where the control block has what decompositions read. `sample/control.rs`, which stands above
//! operators, says what the words mean, and that these are the same.

/// Rows in the cache before this submission.
pub(crate) const PAST: usize = 0;
/// Real rows of this submission.
pub(crate) const LEN: usize = 1;
/// [`RUNNING`], or not.
pub(crate) const DONE: usize = 4;
/// The generation goes on.
pub(crate) const RUNNING: u32 = 0;
