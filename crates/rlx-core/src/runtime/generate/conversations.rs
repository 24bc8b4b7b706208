//! Copies of the rows of earlier conversations, for prompts that go back to one of them.
//!
//! The caches hold the rows of one text. Before a prompt overwrites many of them, they are copied to memory of the
//! session that is there for this; a prompt that begins like a copied text gets its rows back. The memory is one state
//! of a fixed size, asked for with the others: copies lie in it one beside the other, and the one that was used longest
//! ago makes room.

use super::rings::Rings;
use crate::error::Result;
use crate::runtime::model::{CONVERSATIONS, CompiledModel};
use crate::runtime::session::{Session, Stretch};
use alloc::vec::Vec;

/// Fewest rows that are worth a copy: computing them again takes a device longer.
const WORTH: usize = 64;

/// The rows of a text, or those that the caches have.
pub(super) struct Rows {
    /// The text's tokens.
    pub tokens: Vec<u32>,
    /// Whether the recurrences were made of exactly these tokens.
    pub exact: bool,
    /// What was written to the rings.
    pub rings: Rings,
}

/// A copied text.
struct Kept {
    rows: Rows,
    /// Where it is in the state of conversations.
    at: u64,
    bytes: u64,
}

/// A state of which a text's rows are copied.
struct Part {
    state: u32,
    bytes: u64,
    /// Of a cache of all positions: how many runs of consecutive positions it has, one a head.
    runs: Option<u64>,
}

/// Copied texts, and what is copied of a text.
pub(super) struct Conversations {
    /// The state that has the copies; `None` if there is no memory for any.
    memory: Option<(u32, u64)>,
    parts: Vec<Part>,
    positions: u64,
    /// Whether a copy without exact recurrences is of no use.
    recurrent: bool,
    /// The one that was used longest ago first.
    kept: Vec<Kept>,
}

impl Conversations {
    /// Of a session of this model.
    pub fn new(model: &CompiledModel) -> Self {
        let recurrences = model.recurrences();
        let states = (0..).zip(&model.states);
        let memory =
            states.clone().find(|(_, s)| s.name == CONVERSATIONS).map(|(i, s)| (i, s.bytes));
        let of_rows = model.row_states();
        let parts = states.filter(|(i, _)| of_rows.contains(i)).map(|(state, s)| {
            let dims = s.ty.shape.static_dims().unwrap_or_default();
            let whole = recurrences.iter().any(|r| r.0 == state);
            let runs = match dims[..] {
                [heads, positions, _] if !whole && positions == model.context => Some(heads),
                _ => None,
            };
            Part { state, bytes: s.bytes, runs }
        });
        Conversations {
            memory,
            parts: parts.collect(),
            positions: model.context,
            recurrent: !recurrences.is_empty(),
            kept: Vec::new(),
        }
    }

    /// Forgets all copies.
    pub fn forget(&mut self) {
        self.kept.clear();
    }

    /// Prepares the caches, which have the rows `held`, for a prompt: copies what it would overwrite, and puts the rows
    /// back of a text that the prompt goes on with further than with `held`. Returns whose rows the caches have then,
    /// if that has changed.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn turn(&mut self, session: &Session, held: &Rows, prompt: &[u32]) -> Result<Option<Rows>> {
        if self.memory.is_none() {
            return Ok(None);
        }
        let common = |tokens: &[u32]| tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let have = common(&held.tokens);
        let longest = self.kept.iter().enumerate().max_by_key(|(_, k)| common(&k.rows.tokens));
        let back = longest.filter(|(_, k)| common(&k.rows.tokens) >= have + WORTH).map(|l| l.0);
        // Taken out first, so that it does not make room for the copy.
        let back = back.map(|i| self.kept.remove(i));
        if held.tokens.len() >= have + WORTH {
            self.keep(session, held, back.as_ref())?;
        }
        let Some(Kept { rows, at, .. }) = back else { return Ok(None) };
        self.copy(session, rows.tokens.len(), at, false)?;
        Ok(Some(rows))
    }

    /// Copies the rows that the caches have, if there is room beside `other`.
    fn keep(&mut self, session: &Session, held: &Rows, other: Option<&Kept>) -> Result<()> {
        // It goes on with an earlier copy, which it takes the place of.
        self.kept.retain(|k| !held.tokens.starts_with(&k.rows.tokens));
        if self.recurrent && !held.exact {
            return Ok(());
        }
        let bytes: u64 = self.stretches(held.tokens.len()).iter().map(|s| s.bytes).sum();
        let Some(at) = self.room(bytes, other) else { return Ok(()) };
        self.copy(session, held.tokens.len(), at, true)?;
        let Rows { tokens, exact, rings } = held;
        let rows = Rows { tokens: tokens.clone(), exact: *exact, rings: rings.clone() };
        self.kept.push(Kept { rows, at, bytes });
        Ok(())
    }

    /// Where so many bytes are free, once texts that were used long ago are dropped.
    fn room(&mut self, bytes: u64, other: Option<&Kept>) -> Option<u64> {
        let (_, size) = self.memory?;
        loop {
            let mut taken: Vec<(u64, u64)> =
                self.kept.iter().chain(other).map(|k| (k.at, k.at + k.bytes)).collect();
            taken.sort_unstable();
            let mut at = 0;
            for (from, to) in taken {
                if from - at >= bytes {
                    return Some(at);
                }
                at = to;
            }
            if size - at >= bytes {
                return Some(at);
            }
            if self.kept.is_empty() {
                return None;
            }
            self.kept.remove(0);
        }
    }

    /// What the rows of a text of so many tokens are, in the states.
    fn stretches(&self, tokens: usize) -> Vec<Stretch> {
        // Copies are of whole words, and a row of blocks may end between two.
        let rows = (tokens as u64).next_multiple_of(4).min(self.positions);
        let mut out = Vec::new();
        for &Part { state, bytes, runs } in &self.parts {
            let run = bytes / runs.unwrap_or(1);
            let used = run / self.positions * rows;
            match runs {
                Some(runs) if run.is_multiple_of(4) && used.is_multiple_of(4) => {
                    let stretch = |i| Stretch { state, offset: i * run, bytes: used };
                    out.extend((0..runs).map(stretch));
                }
                _ => out.push(Stretch { state, offset: 0, bytes: bytes.next_multiple_of(4) }),
            }
        }
        out
    }

    fn copy(&self, session: &Session, tokens: usize, at: u64, out: bool) -> Result<()> {
        let Some((memory, _)) = self.memory else { return Ok(()) };
        session.move_stretches(&self.stretches(tokens), memory, at, out)
    }
}
