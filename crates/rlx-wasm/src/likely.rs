//! How likely tokens were, as JSON.

use crate::answer::{Object, Put};
use rlx_core::sample::{Likely, LogProb};
use rlx_core::text::Tokenizer;

/// A token: `[id, logprob, bytes]`; the logarithm is null where the probability is 0.
struct Told(u32, f32, Vec<u32>);

impl Put for Told {
    fn put(&self, out: &mut String) {
        let Told(id, logprob, bytes) = self;
        out.push('[');
        id.put(out);
        out.push(',');
        logprob.put(out);
        out.push(',');
        bytes.put(out);
        out.push(']');
    }
}

/// A token of an answer with the likeliest ones in its place: `{"chosen", "top"}`.
pub(crate) struct TokenLikely {
    chosen: Told,
    top: Vec<Told>,
}

impl TokenLikely {
    pub fn new(likely: &Likely, tokenizer: &Tokenizer) -> Self {
        let told = |&LogProb { id, logprob }: &LogProb| {
            let bytes = tokenizer.piece(id).iter().map(|&byte| u32::from(byte));
            Told(id, logprob, bytes.collect())
        };
        TokenLikely { chosen: told(&likely.chosen), top: likely.top.iter().map(told).collect() }
    }
}

impl Put for TokenLikely {
    fn put(&self, out: &mut String) {
        Object::new().with("chosen", &self.chosen).with("top", &self.top).put(out);
    }
}
