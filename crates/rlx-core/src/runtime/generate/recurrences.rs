//! States that every row changes: the matrices of linear attention, the last rows of a convolution.
//!
//! A cache keeps a row for each token, so a prompt that departs from the one before goes on from the last token
//! that both have. A recurrence keeps one state of all tokens, which cannot be taken back: a prompt goes on from it
//! only where it begins with all of these tokens. Else it goes on from a snapshot, which is taken whenever a
//! generation starts, or from nothing.

use crate::error::Result;
use crate::ir::hir::{Block, Module};
use crate::runtime::device::{Write, WriteTo};
use crate::runtime::session::{DeviceTensor, Session};
use crate::types::DType;
use alloc::vec;
use alloc::vec::Vec;

/// Snapshots that are kept: an answer that is asked for again begins at the last one, an edited question at the
/// one before.
const SNAPSHOTS: usize = 2;

/// The recurrences of a session, and copies of them.
pub(super) struct Recurrences {
    /// Numbers of the states, and their bytes.
    states: Vec<(u32, u64)>,
    /// The oldest first.
    snapshots: Vec<Snapshot>,
}

struct Snapshot {
    /// What the states were made of.
    tokens: Vec<u32>,
    memory: DeviceTensor,
}

impl Recurrences {
    /// Those of a model.
    ///
    /// # Errors
    /// `Internal` for a session without a state of the module.
    pub fn of(module: &Module, session: &Session) -> Result<Self> {
        let caches = |b: &Block| matches!(b, Block::Attention(_) | Block::DecoderBlock(_));
        let blocks = module.nodes.iter().map(|node| &node.block).filter(|b| !caches(b));
        let mut states = Vec::new();
        for (name, ty) in blocks.flat_map(|b| b.states(module.context, DType::F32)) {
            states.push((session.state(&name)?, ty.bytes()?));
        }
        Ok(Recurrences { states, snapshots: Vec::new() })
    }

    /// Forgets all snapshots.
    pub fn forget(&mut self) {
        self.snapshots.clear();
    }

    /// Prepares the states for a prompt whose first `common` tokens have their rows in the caches. `held` are the
    /// tokens that the states were made of, if that is known. Returns how many tokens of the prompt the states then
    /// have, and what must be written before its first row.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn begin(
        &mut self,
        session: &mut Session,
        held: Option<&[u32]>,
        prompt: &[u32],
        common: usize,
    ) -> Result<(usize, Vec<Write>)> {
        if self.states.is_empty() {
            return Ok((common, Vec::new()));
        }
        // Snapshots of what the caches no longer have are of no use.
        if let Some(held) = held.filter(|tokens| !tokens.is_empty()) {
            self.keep(session, held)?;
            if held.len() <= common && prompt.starts_with(held) {
                return Ok((held.len(), Vec::new()));
            }
        }
        let fits = |s: &&Snapshot| s.tokens.len() <= common && prompt.starts_with(&s.tokens);
        if let Some(longest) = self.snapshots.iter().filter(fits).max_by_key(|s| s.tokens.len()) {
            session.put_back(&self.states, &longest.memory)?;
            return Ok((longest.tokens.len(), Vec::new()));
        }
        let zeros = |&(state, bytes): &(u32, u64)| Write {
            to: WriteTo::State(state),
            offset: 0,
            bytes: vec![0; bytes as usize],
        };
        Ok((0, self.states.iter().map(zeros).collect()))
    }

    /// Takes a snapshot of states that were made of these tokens.
    fn keep(&mut self, session: &mut Session, tokens: &[u32]) -> Result<()> {
        if let Some(i) = self.snapshots.iter().position(|s| s.tokens == tokens) {
            let newest = self.snapshots.remove(i);
            self.snapshots.push(newest);
            return Ok(());
        }
        let full = self.snapshots.len() >= SNAPSHOTS;
        let memory = full.then(|| self.snapshots.remove(0).memory);
        let memory = session.save(&self.states, memory)?;
        self.snapshots.push(Snapshot { tokens: tokens.to_vec(), memory });
        Ok(())
    }
}
