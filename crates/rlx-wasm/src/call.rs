//! A call that runs, and how fast the last one was.

use crate::answer::Object;
use crate::likely::TokenLikely;
use rlx_core::runtime::generate::engine::Generation;
use rlx_core::text::Tokenizer;

/// A call that runs.
pub(crate) struct Call {
    pub generation: Generation,
    pub started: f64,
    pub first: Option<f64>,
    /// Tokens whose probabilities have been told.
    pub told: usize,
}

impl Call {
    /// An event's text; with it is told how likely the tokens were that have come since the last one.
    pub fn tell(&mut self, mut event: Object, tokenizer: &Tokenizer) -> String {
        let from = core::mem::replace(&mut self.told, self.generation.tokens().len());
        let tokens = &self.generation.tokens()[from..];
        // A token that ends the answer is none of its text.
        let shown = (from..).zip(tokens).filter(|(_, id)| !tokenizer.is_eog(**id));
        let likely = shown.filter_map(|(i, _)| self.generation.likely(i));
        let likely: Vec<_> = likely.map(|likely| TokenLikely::new(likely, tokenizer)).collect();
        if !likely.is_empty() {
            event.set("logprobs", &likely);
        }
        event.text()
    }
}

/// Of the last finished answer.
#[derive(Default)]
pub(crate) struct Speed {
    /// Milliseconds from the call to its first token.
    pub first: Option<f64>,
    /// Tokens per second, of the prompt and of the answer.
    pub prefill: Option<f64>,
    pub decode: Option<f64>,
}

impl Speed {
    /// Adds it to what is told.
    pub fn tell(&self, mut to: Object) -> Object {
        to.set("firstTokenMs", &self.first);
        to.set("prefillTokensPerSecond", &self.prefill);
        to.set("decodeTokensPerSecond", &self.decode);
        to
    }
}
