//! States that every row changes: the matrices of linear attention, the last rows of a convolution.
//!
//! A cache keeps a row for each token, so a prompt that departs from the one before goes on from the last token
//! that both have. A recurrence keeps one state of all tokens, which cannot be taken back: a prompt goes on from it
//! only where it begins with all of these tokens. Else it goes on from a snapshot, which is taken whenever a
//! generation starts, or from nothing.

use crate::error::Result;
use crate::runtime::device::Write;
use crate::runtime::session::{DeviceTensor, Session};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

/// Snapshots that are kept: an answer that is asked for again begins at the last one, an edited question at the
/// one before.
const SNAPSHOTS: usize = 2;

/// The recurrences of a session, and copies of them.
pub(super) struct Recurrences {
    /// Numbers of the states, and their bytes.
    states: Vec<(u32, u64)>,
    /// The one that was used longest ago first.
    snapshots: Vec<Snapshot>,
}

struct Snapshot {
    /// What the states were made of.
    tokens: Vec<u32>,
    memory: DeviceTensor,
}

impl Recurrences {
    /// With these states, by number and bytes.
    pub fn new(states: Vec<(u32, u64)>) -> Self {
        Recurrences { states, snapshots: Vec::new() }
    }

    /// Whether the model has none.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Forgets all snapshots.
    pub fn forget(&mut self) {
        self.snapshots.clear();
    }

    /// Prepares the states for a prompt that can go on from the rows of its first tokens, as many as `lengths` says,
    /// or from none. `held` are the tokens that the states were made of, if that is known. Returns how many tokens of
    /// the prompt the states then have, and what must be written before its first row.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn begin(
        &mut self,
        session: &mut Session,
        held: Option<&[u32]>,
        prompt: &[u32],
        lengths: RangeInclusive<usize>,
    ) -> Result<(usize, Vec<Write>)> {
        if self.states.is_empty() {
            return Ok((if lengths.is_empty() { 0 } else { *lengths.end() }, Vec::new()));
        }
        // This prompt will change the states, so a copy stays.
        if let Some(held) = held.filter(|tokens| !tokens.is_empty()) {
            self.keep(session, held)?;
            if lengths.contains(&held.len()) && prompt.starts_with(held) {
                return Ok((held.len(), Vec::new()));
            }
        }
        let fits =
            |s: &Snapshot| lengths.contains(&s.tokens.len()) && prompt.starts_with(&s.tokens);
        let longest = (0..self.snapshots.len())
            .filter(|&i| fits(&self.snapshots[i]))
            .max_by_key(|&i| self.snapshots[i].tokens.len());
        if let Some(i) = longest {
            session.put_back(&self.states, &self.snapshots[i].memory)?;
            return Ok((self.touch(i), Vec::new()));
        }
        Ok((0, self.states.iter().map(|&(state, bytes)| Write::zeros(state, bytes)).collect()))
    }

    /// Makes a snapshot the one that was used last. Returns how many tokens it has.
    fn touch(&mut self, i: usize) -> usize {
        self.snapshots[i..].rotate_left(1);
        self.snapshots.last().map_or(0, |s| s.tokens.len())
    }

    /// Takes a snapshot of states that were made of these tokens.
    fn keep(&mut self, session: &mut Session, tokens: &[u32]) -> Result<()> {
        if let Some(i) = self.snapshots.iter().position(|s| s.tokens == tokens) {
            self.touch(i);
            return Ok(());
        }
        let full = self.snapshots.len() >= SNAPSHOTS;
        let memory = full.then(|| self.snapshots.remove(0).memory);
        let memory = session.save(&self.states, memory)?;
        self.snapshots.push(Snapshot { tokens: tokens.to_vec(), memory });
        Ok(())
    }
}
