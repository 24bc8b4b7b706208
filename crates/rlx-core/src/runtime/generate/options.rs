//! What a caller may ask of a generation, and what it reports.

use crate::models::Diffusion;
use crate::runtime::generate::machine::Reason;
use crate::sample::SampleParams;
use crate::sample::canvas::Filling;
use alloc::string::String;
use alloc::vec::Vec;

/// Options of a generation.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateOptions {
    /// Most tokens to sample; `None`: until the context is full.
    pub max_tokens: Option<usize>,
    /// The prompt to go on from when the context is full: it stands before the answer's newest tokens, and both are
    /// read again. Without it the answer ends there; with it an answer has as many tokens as the context, unless
    /// `max_tokens` says otherwise.
    pub slide: Option<Vec<u32>>,
    /// How to sample. Its stop ids are added to the tokenizer's.
    pub params: SampleParams,
    /// Texts that end the answer.
    pub stops: Vec<String>,
    /// Report control tokens of the answer, which have no text, as [`Progress::Control`].
    pub controls: bool,
    /// Submissions in flight: decode steps, and chunks of the prompt.
    pub ahead: usize,
    /// Upper bound of the adaptive window of decode steps in flight, which grows if answers come in bursts (see
    /// [`Window`]). A bound of `ahead` or less disables growth. For devices
    /// whose `poll` does not block: a blocking `poll` sees every step's end.
    pub ahead_most: usize,
    /// Keep the logits after the prompt (needs the program `prefill_last_logits`).
    pub logits: bool,
    /// Keep how likely each token was, and so many of the likeliest ones, at most [`MOST_LIKELY`]. The first generation
    /// that asks for it compiles the programs that give logits.
    pub logprobs: Option<usize>,
    /// Continue past end tokens, for benches that need a fixed number of steps.
    pub ignore_stops: bool,
    /// How blocks are filled, for a model that fills blocks.
    pub blocks: BlockOptions,
}

/// How a model of block diffusion fills blocks; what is `None` is as the model's family has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockOptions {
    /// Passes that a block is spread over, at least 1; as many as it has positions where nobody says otherwise. A pass
    /// fixes its part of the block, or all tokens above the threshold if these are more.
    pub steps: Option<u32>,
    /// A pass fixes every token of more than this probability, 0 to 1.
    pub threshold: Option<f32>,
    /// Tokens that were placed are replaced by others of more than this probability, 0 to 1 (LLaDA 2.1); they stay
    /// where nobody says.
    pub editing_threshold: Option<f32>,
    /// Most passes behind a block's last mask, which only replace tokens; 16 where nobody says otherwise.
    pub max_post_steps: Option<u32>,
}

/// Tokens of an answer that is filled with its prompt as one block, where nobody says how many: the published default.
pub(super) const WHOLE_ANSWER: usize = 128;

/// The published default of passes that only edit.
const POST_STEPS: u32 = 16;

impl BlockOptions {
    /// With what the family says where these do not.
    pub(super) fn filling(&self, family: &Diffusion) -> Filling {
        Filling {
            steps: self.steps,
            threshold: self.threshold.unwrap_or(family.threshold),
            editing: self.editing_threshold,
            post: self.max_post_steps.unwrap_or(POST_STEPS),
        }
    }
}

impl Default for GenerateOptions {
    /// Greedy sampling, until the answer ends.
    fn default() -> Self {
        GenerateOptions {
            max_tokens: None,
            slide: None,
            params: SampleParams::default(),
            stops: Vec::new(),
            controls: false,
            ahead: 4,
            ahead_most: 0,
            logits: false,
            logprobs: None,
            ignore_stops: false,
            blocks: BlockOptions::default(),
        }
    }
}

/// What a generation reports.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// A chunk of the prompt is done: rows so far, and rows of the whole prompt.
    Prompt(usize, usize),
    /// More text.
    Text(String),
    /// A control token of the answer, by its name, where [`GenerateOptions::controls`] asks for them.
    Control(String),
    /// The generation has ended.
    Done(Reason),
}
