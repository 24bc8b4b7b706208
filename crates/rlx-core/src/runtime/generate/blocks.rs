//! How an answer of blocks goes on: which pass is next, and what its canvas says. Part of the
//! [`Machine`](super::machine::Machine), for models that fill blocks of masks.
//!
//! A block is filled in passes, each a submission that reads the canvas which the one before left on the device. What
//! the caches have of a block is what the last pass over it read. So one pass more must run behind the pass that
//! finishes a block: it changes nothing of the canvas and leaves the keys and values of the finished block. Two passes
//! in flight have it for free.

use crate::error::{Error, Result};
use crate::sample::canvas::{EDITED, FINISHED, FIXED, IDS};
use alloc::format;
use alloc::vec::Vec;

/// Most passes in flight: one that runs, and one that would leave the finished block in the caches.
pub(super) const IN_FLIGHT: usize = 2;

/// Passes that a block may have beside three for each of its positions: more than any canvas asks for.
const SPARE_PASSES: usize = 2048;

/// What a pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Masks that became tokens.
    pub fixed: u32,
    /// Placed tokens that were replaced.
    pub edited: u32,
}

/// The state of a block, and what became of those before it.
pub(super) struct Blocks {
    /// Positions of a block.
    pub size: usize,
    /// Rows of the prompt that are whole blocks.
    pub whole: usize,
    /// The present block's first position.
    pub at: usize,
    /// Passes of the present block that were submitted.
    begun: usize,
    /// Passes of the present block that answered, up to the one that finished it.
    answered: usize,
    /// Whether the present block is finished.
    finished: bool,
    /// Passes of all blocks, but for those behind the one that finished each.
    passes: Vec<Pass>,
}

/// What a pass's answer means.
pub(super) enum News {
    /// It placed tokens, and the block goes on.
    Step,
    /// It finished the block, whose tokens these are.
    Finished(Vec<u32>),
    /// It ran over a block that was finished: the caches have the rows before this one.
    Kept(usize),
}

impl Blocks {
    /// Blocks of `size` positions behind a prompt.
    pub fn new(size: usize, prompt: usize) -> Self {
        let whole = prompt / size * size;
        let (begun, answered, finished, passes) = (0, 0, false, Vec::new());
        Blocks { size, whole, at: whole, begun, answered, finished, passes }
    }

    /// Passes so far.
    pub fn passes(&self) -> &[Pass] {
        &self.passes
    }

    /// Whether the next pass is the first of a block.
    pub fn begins(&self) -> bool {
        self.begun == 0
    }

    /// Goes on to the next block once a pass behind the last one of this is on its way.
    pub fn advance(&mut self) {
        if self.finished && self.begun > self.answered {
            (self.at, self.begun, self.answered, self.finished) =
                (self.at + self.size, 0, 0, false);
        }
    }

    /// Notes that a pass was submitted; returns its block.
    pub fn submitted(&mut self) -> usize {
        self.begun += 1;
        self.at
    }

    /// Takes the canvas that a pass over the block at `block` left.
    ///
    /// # Errors
    /// `Internal` for a canvas of another size, and for a block that never ends.
    pub fn answer(&mut self, block: usize, canvas: &[u32]) -> Result<News> {
        if block < self.at || self.finished {
            return Ok(News::Kept(block + self.size));
        }
        let tokens = canvas.get(IDS..).filter(|ids| ids.len() == self.size);
        let Some(tokens) = tokens else {
            let what = format!("a pass answered with {} words", canvas.len());
            return Err(Error::internal(what));
        };
        self.answered += 1;
        self.passes.push(Pass { fixed: canvas[FIXED], edited: canvas[EDITED] });
        self.finished = canvas[FINISHED] != 0;
        if self.finished {
            return Ok(News::Finished(tokens.to_vec()));
        }
        if self.answered > 3 * self.size + SPARE_PASSES {
            return Err(Error::internal("a block does not end"));
        }
        Ok(News::Step)
    }
}
