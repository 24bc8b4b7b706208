//! The control block's words, as numbers without axes.

use super::builder::{Builder, V};

/// Rows in the cache before this submission.
pub(super) const PAST: u64 = 0;
/// Real rows of this submission.
pub(super) const LEN: u64 = 1;
/// 0 as long as the generation goes on.
pub(super) const DONE: u64 = 4;

/// A word of a state of words.
pub(super) fn word(b: &mut Builder, state: &V, at: u64) -> V {
    let one = b.part(state, 0, at, 1);
    b.reshape(&one, &[])
}

/// Rows of this submission that change states, at most `rows`: none once the generation is over.
pub(super) fn live(b: &mut Builder, control: &V, rows: u64) -> V {
    let (len, done) = (word(b, control, LEN), word(b, control, DONE));
    let runs = b.compare_with("EQ", &done, 0.0);
    let zero = b.scalar(len.el, 0.0);
    let len = b.select(&runs, &len, &zero);
    let most = b.scalar(len.el, rows as f64);
    b.min(&len, &most)
}
