//! What limits the tokens of an answer: a grammar, in `rlx-grammar`.

use crate::error::{Code, Error, Result};
use crate::runtime::device::shared::Anywhere;
use crate::runtime::device::{Write, WriteTo};
use crate::runtime::generate::engine::words;
use crate::sample::params::{MASKED, WORDS};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Says after each token which ones may follow. The next choice waits for it, so that one step is in flight; a device
/// that works on its own computes the next logits meanwhile.
pub trait Constraint: Anywhere {
    /// Takes the tokens that were sampled since the last call, and sets the bit of each token that may follow, the
    /// lowest of a word first; all are 0 before. False if any token may follow: the bits are not read.
    ///
    /// # Errors
    /// Whatever makes it impossible to go on; the generation fails with it.
    fn next(&mut self, sampled: &[u32], allowed: &mut [u32]) -> Result<bool>;
}

/// A constraint, and what it has been told.
pub(super) struct Constrained {
    constraint: Box<dyn Constraint>,
    /// Sampled tokens that it knows.
    told: usize,
    /// Whether the device reads a mask.
    masked: bool,
    allowed: Vec<u32>,
}

impl Constrained {
    /// A constraint of tokens of a vocabulary of this size, before the first one.
    pub(super) fn new(constraint: Box<dyn Constraint>, vocab: u64) -> Self {
        let allowed = vec![0; vocab.div_ceil(32) as usize];
        Constrained { constraint, told: 0, masked: false, allowed }
    }

    /// Behind these sampled tokens: what to write into the state of sampling parameters.
    pub(super) fn next(&mut self, sampled: &[u32], params: u32) -> Result<Option<Write>> {
        self.allowed.fill(0);
        let new = sampled.get(self.told..).unwrap_or(&[]);
        let masked = self.constraint.next(new, &mut self.allowed)?;
        self.told = sampled.len();
        if masked && self.allowed.iter().all(|&word| word == 0) {
            let what = "the grammar allows no token of the model's vocabulary here";
            return Err(Error::new(Code::Usage, what).hint(
                "allow other texts: this vocabulary cannot write what the grammar asks for",
            ));
        }
        if !masked && !self.masked {
            return Ok(None);
        }
        self.masked = masked;
        // Words between this one and the mask are 0.
        let mut out = vec![0; WORDS - MASKED];
        out[0] = u32::from(masked);
        if masked {
            out.extend_from_slice(&self.allowed);
        }
        let offset = 4 * MASKED as u64;
        Ok(Some(Write { to: WriteTo::State(params), offset, bytes: words(&out) }))
    }
}
