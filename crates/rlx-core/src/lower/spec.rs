//! Which programs a language model has.

use crate::types::{Binding, OUT_ROWS, SEQ};
use alloc::string::String;
use alloc::vec::Vec;

/// Name of the program for a last chunk of few rows.
const SHORT: &str = "prefill_short";

/// Which of a model's programs to make.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramSpec {
    /// `decode`, `prefill`, `prefill_last`, `prefill_short`, `verify`, `denoise`.
    pub name: String,
    /// Rows of a step, `SEQ`. With 1 the id comes from the control block, with `denoise` from the canvas, else
    /// from input `ids`.
    pub seq: u64,
    /// Rows that reach the head, `OUT_ROWS`; 0 for inner chunks.
    pub out_rows: u64,
    /// Sample from the one row of logits, advance the control block, return `token`.
    pub sample: bool,
    /// Read a block's ids from the canvas, place tokens on it, return `canvas`.
    pub denoise: bool,
    /// Return `logits`.
    pub logits: bool,
    /// Return every tap.
    pub taps: bool,
}

impl ProgramSpec {
    /// One token for every position.
    pub fn decode() -> Self {
        Self {
            name: "decode".into(),
            seq: 1,
            out_rows: 1,
            sample: true,
            denoise: false,
            logits: false,
            taps: false,
        }
    }

    /// An inner chunk of a prompt: fills caches, nothing else.
    pub fn prefill(chunk: u64) -> Self {
        Self { name: "prefill".into(), seq: chunk, out_rows: 0, sample: false, ..Self::decode() }
    }

    /// The last chunk of a prompt: its last row is sampled.
    pub fn prefill_last(chunk: u64) -> Self {
        Self { name: "prefill_last".into(), seq: chunk, ..Self::decode() }
    }

    /// A last chunk of few rows.
    pub fn prefill_short(rows: u64) -> Self {
        Self { name: SHORT.into(), seq: rows, ..Self::decode() }
    }

    /// Whether this is [`prefill_short`](Self::prefill_short), with logits or without.
    pub fn is_short(&self) -> bool {
        self.name.starts_with(SHORT)
    }

    /// Every row's logits, and the taps if asked.
    pub fn verify(chunk: u64, taps: bool) -> Self {
        Self {
            name: "verify".into(),
            seq: chunk,
            out_rows: chunk,
            sample: false,
            denoise: false,
            logits: true,
            taps,
        }
    }

    /// A pass over a block of masks and tokens, of a model that fills blocks.
    pub fn denoise(block: u64) -> Self {
        Self {
            name: "denoise".into(),
            seq: block,
            out_rows: block,
            sample: false,
            denoise: true,
            ..Self::decode()
        }
    }

    /// The programs of a model that fills blocks of so many positions, in place of these: one that fills them where
    /// others sample a token.
    pub(crate) fn of_blocks(programs: &[Self], block: u64) -> Vec<Self> {
        let mut made: Vec<Self> = Vec::new();
        for program in programs {
            let own = if program.sample {
                let own = Self::denoise(block);
                if program.logits { own.with_logits() } else { own }
            } else {
                program.clone()
            };
            if !made.contains(&own) {
                made.push(own);
            }
        }
        made
    }

    /// The same program with `logits` returned.
    #[must_use]
    pub fn with_logits(mut self) -> Self {
        self.logits = true;
        self.name.push_str("_logits");
        self
    }

    /// Sizes of the symbols.
    pub fn binding(&self) -> Binding {
        Binding::from([(SEQ.into(), self.seq), (OUT_ROWS.into(), self.out_rows)])
    }
}
