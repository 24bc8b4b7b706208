//! Answers that go on where the context is full.
//!
//! What stays is read again at new positions. Rows of a cache could be moved instead, but those above the first layer
//! were computed with what is left out in sight, and states of all tokens cannot be taken back: read again, the answer
//! goes on as that of a fresh engine does. What was counted for penalties stays on the device. Random numbers are a
//! function of seed and position, and positions come again: so the seed is another one behind each slide.

use crate::error::{Code, Error, Result};
use crate::runtime::device::{Write, WriteTo};
use crate::runtime::generate::engine::{Engine, words};
use crate::runtime::generate::generation::Generation;
use crate::runtime::generate::options::GenerateOptions;
use crate::sample::params::SEED_HI;
use alloc::format;

impl Engine {
    /// Refuses what the context cannot slide to.
    pub(super) fn check_slide(&self, options: &GenerateOptions) -> Result<()> {
        let Some(prompt) = &options.slide else { return Ok(()) };
        let (n, capacity) = (prompt.len(), self.compiled.context);
        if self.compiled.diffusion.is_some() {
            let what = "a model that fills blocks has no context that slides";
            return Err(Error::usage(what).at("overflow").hint("leave it out"));
        }
        if n as u64 >= capacity {
            let what = format!("what stays in the context has {n} tokens, of {capacity}");
            return Err(Error::new(Code::ContextFull, what).hint("shorten it"));
        }
        let outside = |&&id: &&u32| u64::from(id) >= self.compiled.module.vocab;
        match prompt.iter().find(outside) {
            Some(id) => Err(Error::usage(format!("token {id} is outside the vocabulary"))),
            None => Ok(()),
        }
    }
}

impl Generation {
    /// Begins again from what stays in the context.
    pub(super) fn slide(&mut self, engine: &mut Engine) -> Result<()> {
        let held = self.machine.cached();
        let prompt = self.machine.slide();
        // A token's own row must be computed, for its logits.
        let common = held.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let lengths = engine.rings.least()..=common.min(prompt.len() - 1);
        // No copy is kept of the states: nobody asks with a context that was full.
        let (reused, cleared) =
            engine.recurrences.begin(&mut engine.session, None, prompt, lengths)?;
        engine.rings.begin(reused);
        engine.cached = prompt[..reused].to_vec();
        self.first = cleared;
        // The high half: requests count on from their seed in the low one.
        self.seed = self.seed.wrapping_add(1 << 32);
        self.first.push(Write {
            to: WriteTo::State(engine.states[1]),
            offset: 4 * SEED_HI as u64,
            bytes: words(&[(self.seed >> 32) as u32]),
        });
        self.control.step = self.machine.tokens().len() as u32;
        self.want_logits = false; // those behind the prompt itself
        self.since = engine.pacing.as_ref().map_or(0.0, |p| p.0());
        self.machine.slid(reused);
        Ok(())
    }
}
