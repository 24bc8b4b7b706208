//! An engine: the session of a language model. Generations run on it one at a time.

use crate::error::{Code, Error, Result};
use crate::ir::lir::Program;
use crate::lower::{CANVAS, COUNTS, CTL, PARAMS};
use crate::models::Diffusion;
use crate::runtime::device::shared::Anywhere;
use crate::runtime::device::{Device, DeviceInfo, ProgramId, Submission, Ticket, Write, WriteTo};
use crate::runtime::generate::conversations::{Conversations, Rows};
pub use crate::runtime::generate::generation::Generation;
use crate::runtime::generate::machine::{Machine, Request, device_lost};
use crate::runtime::generate::options::WHOLE_ANSWER;
pub use crate::runtime::generate::options::{BlockOptions, GenerateOptions, Progress};
use crate::runtime::generate::pacing::Pacing;
use crate::runtime::generate::recurrences::Recurrences;
use crate::runtime::generate::rings::Rings;
use crate::runtime::generate::window::Window;
use crate::runtime::model::CompiledModel;
use crate::runtime::session::Session;
use crate::sample::canvas::Filling;
use crate::sample::{Control, IN_PROMPT, SampleParams, bias_word};
use crate::text::Tokenizer;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// A loaded model with its tokenizer.
pub struct Engine {
    pub(super) session: Session,
    pub(super) compiled: Arc<CompiledModel>,
    pub(super) tokenizer: Arc<Tokenizer>,
    /// Tokens whose rows are in the caches, or were when the device was lost.
    pub(super) cached: Vec<u32>,
    /// Whether the recurrences were made of exactly these tokens.
    pub(super) exact: bool,
    pub(super) recurrences: Recurrences,
    pub(super) rings: Rings,
    pub(super) conversations: Conversations,
    /// Whether a generation has found the device lost.
    pub(super) lost: bool,
    /// Numbers of the states: control block, sampling parameters, counts.
    pub(super) states: [u32; 3],
    /// Number of the canvas's state, of a model that fills blocks.
    pub(super) canvas: Option<u32>,
    /// Generations started.
    pub(super) turn: u64,
    /// A clock, and the pacing measured with it; see [`pace_by`](Self::pace_by).
    pub(super) pacing: Option<(Clock, Pacing)>,
    /// Rows of the program for short prompts; 0 if there is none.
    pub(super) short_rows: usize,
    /// Decode steps that the last generation had in flight.
    pub(super) ahead: usize,
}

/// A clock, in milliseconds since an arbitrary moment.
pub type Clock = Arc<dyn Milliseconds>;

/// A function that reads a clock. It must work on every thread that may use the engine.
pub trait Milliseconds: Fn() -> f64 + Anywhere {}

impl<F: Fn() -> f64 + Anywhere> Milliseconds for F {}

pub(super) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

impl Engine {
    /// An engine over the session of a compiled model.
    ///
    /// # Errors
    /// `BadFile` if the tokenizer and the model differ in their number of tokens.
    pub fn new(
        session: Session,
        compiled: Arc<CompiledModel>,
        tokenizer: Arc<Tokenizer>,
    ) -> Result<Self> {
        let states = [session.state(CTL)?, session.state(PARAMS)?, session.state(COUNTS)?];
        let canvas = compiled.diffusion.map(|_| session.state(CANVAS)).transpose()?;
        if tokenizer.vocab_size() as u64 > compiled.module.vocab {
            return Err(Error::bad_file(format!(
                "the tokenizer has {} tokens, the model {}",
                tokenizer.vocab_size(),
                compiled.module.vocab
            )));
        }
        let short = compiled.program("prefill_short").map(|i| compiled.specs[i].seq as usize);
        let recurrences = Recurrences::new(compiled.recurrences());
        let rings = Rings::new(compiled.cache_spare());
        let conversations = Conversations::new(&compiled);
        Ok(Engine {
            session,
            compiled,
            tokenizer,
            cached: Vec::new(),
            exact: true,
            recurrences,
            rings,
            conversations,
            lost: false,
            states,
            canvas,
            turn: 0,
            pacing: None,
            short_rows: short.unwrap_or(0),
            ahead: 0,
        })
    }

    /// Cuts prompts by the time that their rows take on this clock: see [`Pacing`]. For shared devices.
    pub fn pace_by(&mut self, clock: Clock) {
        self.pacing = Some((clock, Pacing::new(self.compiled.chunk as usize)));
    }

    /// Submits prompts in whole chunks of the program, however long they take.
    pub fn unpaced(&mut self) {
        self.pacing = None;
    }

    /// The program with this id on the device.
    pub fn program(&self, id: ProgramId) -> Option<&Program> {
        self.session.programs().find(|p| p.0 == id).map(|p| p.1)
    }

    /// Names of the programs on the device.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.session.entries()
    }

    /// The compiled model.
    pub fn compiled(&self) -> &CompiledModel {
        &self.compiled
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        self.session.device()
    }

    /// Which executor runs.
    pub fn info(&self) -> DeviceInfo {
        self.session.info()
    }

    /// Tokens whose rows are in the caches; if the device is lost, those that are known to have been. A new
    /// engine can compute their rows again with [`restore`](Self::restore).
    pub fn cached_tokens(&self) -> &[u32] {
        &self.cached
    }

    /// Forgets the caches' contents: the next prompt is computed from its first token.
    pub fn reset(&mut self) {
        self.cached.clear();
        self.exact = false;
        self.recurrences.forget();
        self.conversations.forget();
    }

    /// Starts a generation. One runs at a time: callers must queue others. A generation that still runs is
    /// cancelled at its next poll and leaves the record of the caches alone.
    ///
    /// # Errors
    /// `Usage` for an empty prompt, sampling values out of range, or logits of a model compiled
    /// without them, options of blocks for a model that fills none, or of sampling that one does not have, or a slide;
    /// `ContextFull` for a prompt that leaves no room for an answer; `DeviceLost` after a
    /// generation has found the device lost.
    pub fn start(&mut self, prompt: Vec<u32>, options: &GenerateOptions) -> Result<Generation> {
        if self.lost {
            return Err(device_lost());
        }
        let capacity = self.compiled.context as usize;
        if prompt.is_empty() {
            return Err(Error::usage("the prompt is empty").hint("give it at least one token"));
        }
        if prompt.len() > capacity {
            return Err(Error::new(
                Code::ContextFull,
                format!("the prompt has {} tokens, the context holds {capacity}", prompt.len()),
            )
            .hint("shorten the prompt, start a new chat, or load with a longer context"));
        }
        if let Some(&id) = prompt.iter().find(|&&id| u64::from(id) >= self.compiled.module.vocab) {
            return Err(Error::usage(format!("token {id} is outside the vocabulary")));
        }
        if options.max_tokens == Some(0) {
            return Err(Error::usage("max_tokens is 0, expected 1 or more"));
        }
        self.check_slide(options)?;
        let max_tokens = self.answer(prompt.len(), options)?;
        if options.logits && self.compiled.diffusion.is_some() {
            return Err(Error::usage("a model that fills blocks has no logits after a prompt")
                .hint("ask a session for the entry `logits`"));
        }
        if options.logprobs.is_some() && self.compiled.diffusion.is_some() {
            return Err(Error::usage("a model that fills blocks tells no logprobs").at("logprobs"));
        }
        if options.logits && self.compiled.program("prefill_last_logits").is_none() {
            return Err(Error::usage("the model was compiled without logits")
                .hint("compile it with `ModelOptions::with_logits`"));
        }
        let mut params = options.params.clone();
        if options.ignore_stops {
            params.stop_ids.clear();
        } else {
            for &id in self.tokenizer.eog() {
                if !params.stop_ids.contains(&id) {
                    params.stop_ids.push(id);
                }
            }
        }
        params.validate()?;
        let mut biased = params.logit_bias.iter().map(|bias| bias.0);
        if let Some(id) = biased.find(|&id| u64::from(id) >= self.compiled.module.vocab) {
            let what = format!("token {id} is outside the vocabulary");
            return Err(Error::usage(what).at("logit_bias"));
        }
        let filling = self.filling(&params, options)?;
        let block = self.compiled.diffusion.map_or(1, |d| d.block as usize);
        // A block is computed whole; a token's own row must be, for its logits.
        let reusable = match filling {
            Some(_) => prompt.len() / block * block,
            None => prompt.len() - 1,
        };
        if filling.is_some() && reusable + block > capacity {
            let what = format!(
                "the prompt has {} tokens, and the context of {capacity} has no room for a block of {block}",
                prompt.len()
            );
            return Err(Error::new(Code::ContextFull, what)
                .hint("shorten the prompt, start a new chat, or load with a longer context"));
        }
        if options.logprobs.is_some() {
            self.add_logits()?;
        }
        self.turn_to(&prompt[..reusable])?;
        let common =
            self.cached.iter().zip(&prompt).take_while(|(a, b)| a == b).count().min(reusable)
                / block
                * block;
        let held = self.exact.then_some(&self.cached[..]);
        let lengths = self.rings.least()..=common;
        let (reused, cleared) =
            self.recurrences.begin(&mut self.session, held, &prompt, lengths)?;
        self.rings.begin(reused);
        // From here on, rows past the common prefix may be overwritten.
        self.cached.truncate(reused);
        self.exact = false;
        self.turn += 1;
        let mut first = vec![Write {
            to: WriteTo::State(self.states[1]),
            offset: 0,
            bytes: words(&params.to_words()),
        }];
        if params.has_penalties() {
            let mut counts = vec![0u32; self.compiled.module.vocab as usize];
            for &id in &prompt {
                counts[id as usize] |= IN_PROMPT;
            }
            for &(id, bias) in &params.logit_bias {
                // Of an id that is there twice the last bias counts.
                counts[id as usize] = counts[id as usize] & IN_PROMPT | bias_word(bias);
            }
            first.push(Write {
                to: WriteTo::State(self.states[2]),
                offset: 0,
                bytes: words(&counts),
            });
        }
        first.extend(cleared);
        let control = Control {
            limit: u32::try_from(max_tokens).unwrap_or(u32::MAX),
            capacity: capacity as u32,
            ..Control::default()
        };
        let prompt_len = prompt.len();
        let request = Request {
            cached: reused,
            // Chunks of a prompt are whole blocks.
            chunk: (self.pacing.as_ref().map_or(self.compiled.chunk as usize, |p| p.1.rows())
                / block
                * block)
                .max(block),
            capacity,
            slide: options.slide.clone(),
            max_tokens,
            stop_ids: params.stop_ids.clone(),
            stops: options.stops.clone(),
            controls: options.controls,
            ahead: options.ahead.max(1),
            block: filling.map(|_| block),
            prompt,
        };
        let window = Window::new(request.ahead, options.ahead_most, self.ahead);
        let mut machine = Machine::new(request, self.tokenizer.clone());
        machine.set_window(window.size());
        Ok(Generation {
            prompt_len,
            reused,
            machine,
            window,
            control,
            seed: params.seed,
            first,
            want_logits: options.logits,
            logits: None,
            last_chunk: None,
            logprobs: options.logprobs,
            adding: options.logprobs.is_some(),
            sampled: Vec::new(),
            finished: false,
            turn: self.turn,
            since: self.pacing.as_ref().map_or(0.0, |p| p.0()),
            most_ahead: options.ahead.max(1),
            filling,
            constrained: None,
            begun: false,
        })
    }

    /// Adds the programs that give each token's logits, where they are not there.
    fn add_logits(&mut self) -> Result<()> {
        for (name, with_logits) in [
            ("prefill_short", "prefill_short_logits"),
            ("prefill_last", "prefill_last_logits"),
            ("decode", "decode_logits"),
        ] {
            if name == "prefill_short" && self.short_rows == 0 {
                continue;
            }
            if self.session.entries().all(|entry| entry != with_logits) {
                let target = self.session.device().target();
                let (name, program) = self.compiled.also_with_logits(name, target)?;
                self.session.add(&name, &program)?;
            }
        }
        Ok(())
    }

    /// Has the caches hold the rows of the text that a prompt goes on with furthest.
    fn turn_to(&mut self, prompt: &[u32]) -> Result<()> {
        let tokens = core::mem::take(&mut self.cached);
        let held = Rows { tokens, exact: self.exact, rings: self.rings.clone() };
        let turned = self.conversations.turn(&self.session, &held, prompt);
        // After a failure the caches may have anything.
        let rows = match turned {
            Ok(found) => found.unwrap_or(held),
            Err(e) => {
                self.reset();
                return Err(e);
            }
        };
        (self.cached, self.exact, self.rings) = (rows.tokens, rows.exact, rows.rings);
        Ok(())
    }

    /// Most tokens of an answer. Where it is one block with its prompt, it has as many and there must be room.
    fn answer(&self, prompt: usize, options: &GenerateOptions) -> Result<usize> {
        let capacity = self.compiled.context as usize;
        if !self.compiled.diffusion.is_some_and(|d| d.whole) {
            // An answer that slides has no end of its own.
            let most = options.slide.as_ref().map_or(usize::MAX, |_| capacity);
            return Ok(options.max_tokens.unwrap_or(most));
        }
        let room = capacity.saturating_sub(prompt);
        let answer = options.max_tokens.unwrap_or(WHOLE_ANSWER.min(room.max(1)));
        if answer > room {
            let what = format!(
                "the prompt has {prompt} tokens and the answer {answer}, the context holds {capacity}"
            );
            return Err(Error::new(Code::ContextFull, what)
                .hint("ask for fewer tokens, shorten the prompt, or load with a longer context"));
        }
        Ok(answer)
    }

    /// How blocks are filled, if the model fills blocks.
    fn filling(
        &self,
        params: &SampleParams,
        options: &GenerateOptions,
    ) -> Result<Option<(Filling, Diffusion)>> {
        let Some(diffusion) = self.compiled.diffusion else {
            if options.blocks == BlockOptions::default() {
                return Ok(None);
            }
            let what = "steps and thresholds are for models that fill blocks, and this one writes token by token";
            return Err(Error::usage(what).hint("leave them out"));
        };
        let SampleParams { top_k, top_p, .. } = *params;
        if top_k != 0 || top_p != 1.0 || params.has_penalties() {
            let what = "a model that fills blocks samples by temperature, min_p and seed alone";
            return Err(Error::usage(what).hint("leave top_k, top_p, logit_bias and penalties out"));
        }
        let filling = options.blocks.filling(&diffusion);
        filling.validate()?;
        if diffusion.whole && filling.editing.is_some() {
            let what = "a model that fills prompt and answer as one block replaces no tokens";
            return Err(Error::usage(what).hint("leave editing_threshold out"));
        }
        Ok(Some((filling, diffusion)))
    }

    pub(super) fn submit(&self, name: &str, writes: &[Write], pieces: u32) -> Result<Ticket> {
        let how = Submission { pieces, ..Submission::new(writes) };
        self.session.submit(name, &how)
    }
}
