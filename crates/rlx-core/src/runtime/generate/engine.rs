//! An engine: the session of a language model. Generations run on it one at a time.

use crate::error::{Code, Error, Result};
use crate::ir::lir::Program;
use crate::lower::{CANVAS, COUNTS, CTL, PARAMS};
use crate::models::Diffusion;
use crate::runtime::device::shared::Anywhere;
use crate::runtime::device::{
    Device, DeviceInfo, Outputs, ProgramId, Submission, Ticket, Write, WriteTo,
};
use crate::runtime::generate::blocks::Pass;
use crate::runtime::generate::conversations::{Conversations, Rows};
use crate::runtime::generate::machine::{Action, Event, Machine, Reason, Request, device_lost};
use crate::runtime::generate::pacing::Pacing;
use crate::runtime::generate::recurrences::Recurrences;
use crate::runtime::generate::rings::Rings;
use crate::runtime::generate::window::Window;
use crate::runtime::model::CompiledModel;
use crate::runtime::session::Session;
use crate::sample::canvas::Filling;
use crate::sample::{Control, IN_PROMPT, Likely, SampleParams, bias_word, likely};
use crate::text::Tokenizer;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::task::{Context, Poll};

/// Options of a generation.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateOptions {
    /// Most tokens to sample; `None`: until the context is full.
    pub max_tokens: Option<usize>,
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
const WHOLE_ANSWER: usize = 128;

/// The published default of passes that only edit.
const POST_STEPS: u32 = 16;

impl BlockOptions {
    /// With what the family says where these do not.
    fn filling(&self, family: &Diffusion) -> Filling {
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

/// A loaded model with its tokenizer.
pub struct Engine {
    session: Session,
    compiled: Arc<CompiledModel>,
    tokenizer: Arc<Tokenizer>,
    /// Tokens whose rows are in the caches, or were when the device was lost.
    cached: Vec<u32>,
    /// Whether the recurrences were made of exactly these tokens.
    exact: bool,
    recurrences: Recurrences,
    rings: Rings,
    conversations: Conversations,
    /// Whether a generation has found the device lost.
    lost: bool,
    /// Numbers of the states: control block, sampling parameters, counts.
    states: [u32; 3],
    /// Number of the canvas's state, of a model that fills blocks.
    canvas: Option<u32>,
    /// Generations started.
    turn: u64,
    /// A clock, and the pacing measured with it; see [`pace_by`](Self::pace_by).
    pacing: Option<(Clock, Pacing)>,
    /// Rows of the program for short prompts; 0 if there is none.
    short_rows: usize,
    /// Decode steps that the last generation had in flight.
    ahead: usize,
}

/// A generation in progress. It borrows nothing: poll it with its engine.
pub struct Generation {
    machine: Machine,
    window: Window,
    control: Control,
    /// Writes that go with the first submission.
    first: Vec<Write>,
    prompt_len: usize,
    reused: usize,
    want_logits: bool,
    logits: Option<Vec<f32>>,
    last_chunk: Option<Ticket>,
    /// How many of the likeliest tokens are told, if any are.
    logprobs: Option<usize>,
    /// Whether programs may have been added that are not there yet.
    adding: bool,
    /// Submissions that sample, by the tokens that they give; of each how likely it was.
    sampled: Vec<(Ticket, Option<Likely>)>,
    finished: bool,
    turn: u64,
    /// When the oldest submission in flight began, at the earliest.
    since: f64,
    /// Most chunks in flight.
    most_ahead: usize,
    /// How blocks are filled, and by which model.
    filling: Option<(Filling, Diffusion)>,
}

/// A clock, in milliseconds since an arbitrary moment.
pub type Clock = Arc<dyn Milliseconds>;

/// A function that reads a clock. It must work on every thread that may use the engine.
pub trait Milliseconds: Fn() -> f64 + Anywhere {}

impl<F: Fn() -> f64 + Anywhere> Milliseconds for F {}

fn words(words: &[u32]) -> Vec<u8> {
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
    /// without them, options of blocks for a model that fills none, or of sampling that one does not have;
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
        })
    }

    /// Adds the programs that give each token's logits, where they are not there.
    fn add_logits(&mut self) -> Result<()> {
        for (name, with_logits) in
            [("prefill_last", "prefill_last_logits"), ("decode", "decode_logits")]
        {
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
        if !self.compiled.diffusion.is_some_and(|d| d.whole) {
            return Ok(options.max_tokens.unwrap_or(usize::MAX));
        }
        let capacity = self.compiled.context as usize;
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

    fn submit(&self, name: &str, writes: &[Write], pieces: u32) -> Result<Ticket> {
        let how = Submission { pieces, ..Submission::new(writes) };
        self.session.submit(name, &how)
    }
}

impl Generation {
    /// Stops the generation: nothing new is submitted. Keep polling until every ticket has answered.
    pub fn cancel(&mut self) {
        self.adding = false;
        self.machine.feed(Event::Cancel);
    }

    /// Tokens of the prompt.
    pub fn prompt_tokens(&self) -> usize {
        self.prompt_len
    }

    /// Tokens of the prompt whose rows were in the caches from earlier turns.
    pub fn reused_tokens(&self) -> usize {
        self.reused
    }

    /// Sampled tokens so far, the end token included.
    pub fn tokens(&self) -> &[u32] {
        self.machine.tokens()
    }

    /// What each pass over a block did so far, of a model that fills blocks: tokens that it fixed, and replaced.
    pub fn passes(&self) -> &[Pass] {
        self.machine.passes()
    }

    /// Logits after the prompt, if they were asked for and the prompt is done.
    pub fn logits(&self) -> Option<&[f32]> {
        self.logits.as_deref()
    }

    /// How likely token number `i` of the answer was, if that was asked for and it has been sampled.
    pub fn likely(&self, i: usize) -> Option<&Likely> {
        self.sampled.get(i)?.1.as_ref()
    }

    /// Works as far as possible without waiting. After `Done` it answers `None`.
    pub fn poll_next(
        &mut self,
        engine: &mut Engine,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Progress>> {
        let latest = engine.turn == self.turn;
        if !latest {
            self.machine.feed(Event::Cancel);
        }
        if self.adding {
            match engine.session.poll_added(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(e)) if e.code == Code::DeviceLost => self.machine.feed(Event::Lost),
                // Nothing was submitted, so a placeholder stands for a ticket.
                Poll::Ready(Err(error)) => {
                    self.machine.feed(Event::Failed { ticket: Ticket(u32::MAX), error });
                }
            }
            self.adding = false;
        }
        loop {
            match self.machine.next_action() {
                Action::Emit(text) => return Poll::Ready(Some(Progress::Text(text))),
                Action::Control(name) => return Poll::Ready(Some(Progress::Control(name))),
                Action::Done(_) if self.finished => return Poll::Ready(None),
                Action::Done(reason) => {
                    self.finished = true;
                    if latest {
                        engine.cached = self.machine.cached();
                        engine.exact = self.machine.exact();
                    }
                    engine.lost |=
                        matches!(&reason, Reason::Failed(e) if e.code == Code::DeviceLost);
                    return Poll::Ready(Some(Progress::Done(reason)));
                }
                Action::Prefill { tokens, at, last } => {
                    engine.rings.submit(at as usize + tokens.len());
                    let answer = self.prefill(engine, &tokens, at, last);
                    self.note(answer, last, last);
                }
                Action::Decode => {
                    engine.rings.submit(self.machine.fed() + 1);
                    let name = if self.logprobs.is_some() { "decode_logits" } else { "decode" };
                    let answer = engine.submit(name, &[], 1);
                    self.note(answer, false, true);
                }
                Action::Denoise { begin } => {
                    let answer = self.denoise(engine, begin);
                    self.note(answer, false, false);
                }
                Action::Await => {
                    let before = self.machine.prompt_rows();
                    let in_flight = self.machine.tickets().count();
                    if !self.poll_tickets(engine, cx) {
                        let grown = self.window.settle();
                        engine.ahead = self.window.size();
                        self.machine.set_window(engine.ahead);
                        if grown {
                            continue;
                        }
                        return Poll::Pending;
                    }
                    let rows = self.machine.prompt_rows();
                    if rows == before {
                        self.window.answered(in_flight);
                    }
                    if rows > before {
                        self.pace(engine, rows - before);
                        return Poll::Ready(Some(Progress::Prompt(rows, self.prompt_len)));
                    }
                }
            }
        }
    }

    /// Adapts the pacing to the time that `rows` of the prompt took.
    fn pace(&mut self, engine: &mut Engine, rows: usize) {
        let Some((clock, pacing)) = &mut engine.pacing else { return };
        let now = clock();
        pacing.took(rows, now - self.since);
        self.since = now;
        self.machine.set_chunks(pacing.rows(), pacing.in_flight(self.most_ahead));
    }

    /// Tells the machine a submission's ticket, or that the submission failed.
    fn note(&mut self, answer: Result<Ticket>, last_chunk: bool, samples: bool) {
        match answer {
            Ok(ticket) => {
                if last_chunk {
                    self.last_chunk = Some(ticket);
                }
                if samples && self.logprobs.is_some() {
                    self.sampled.push((ticket, None));
                }
                self.machine.submitted(ticket);
            }
            Err(e) if e.code == Code::DeviceLost => self.machine.feed(Event::Lost),
            Err(error) => {
                // The submission failed, so a placeholder stands for its ticket.
                self.machine.feed(Event::Failed { ticket: Ticket(u32::MAX), error });
            }
        }
    }

    fn prefill(&mut self, engine: &Engine, tokens: &[u32], at: u32, last: bool) -> Result<Ticket> {
        self.control.past = at;
        self.control.len = tokens.len() as u32;
        let mut writes = core::mem::take(&mut self.first);
        writes.push(Write {
            to: WriteTo::State(engine.states[0]),
            offset: 0,
            bytes: words(&self.control.to_words()),
        });
        writes.push(Write { to: WriteTo::Input(0), offset: 0, bytes: words(tokens) });
        let name = match (last, self.want_logits || self.logprobs.is_some()) {
            (false, _) => "prefill",
            (true, false) if engine.short_rows >= tokens.len() => "prefill_short",
            (true, false) => "prefill_last",
            (true, true) => "prefill_last_logits",
        };
        let pieces = engine.pacing.as_ref().map_or(1, |p| p.1.pieces(tokens.len()));
        engine.submit(name, &writes, pieces)
    }

    /// Submits a pass over a block; of the first one also where it is, and the canvas.
    fn denoise(&mut self, engine: &Engine, begin: Option<(u32, Vec<u32>)>) -> Result<Ticket> {
        let mut writes = core::mem::take(&mut self.first);
        if let (Some((at, prompt)), Some((filling, model))) = (begin, self.filling) {
            let block = model.block as usize;
            let (len, canvas) = if model.whole {
                let masks = self.control.limit as usize;
                (prompt.len() + masks, filling.whole(model.mask, &prompt, masks, block))
            } else {
                (block, filling.canvas(model.mask, at, &prompt, block))
            };
            self.control.past = at;
            self.control.len = len as u32;
            let to = engine.canvas.ok_or_else(|| Error::internal("there is no canvas"))?;
            for (state, bytes) in
                [(engine.states[0], words(&self.control.to_words())), (to, words(&canvas))]
            {
                writes.push(Write { to: WriteTo::State(state), offset: 0, bytes });
            }
        }
        engine.submit("denoise", &writes, 1)
    }

    /// Polls tickets, oldest first, until one answers; false if none did.
    fn poll_tickets(&mut self, engine: &Engine, cx: &mut Context<'_>) -> bool {
        let tickets: Vec<Ticket> = self.machine.tickets().collect();
        for ticket in tickets {
            match engine.session.poll(ticket, cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(outputs)) => {
                    self.read(ticket, outputs);
                    return true;
                }
                Poll::Ready(Err(e)) if e.code == Code::DeviceLost => {
                    self.machine.feed(Event::Lost);
                    return true;
                }
                Poll::Ready(Err(error)) => {
                    self.machine.feed(Event::Failed { ticket, error });
                    return true;
                }
            }
        }
        false
    }

    fn read(&mut self, ticket: Ticket, outputs: Outputs) {
        if self.filling.is_some() {
            // A chunk of the prompt has no output.
            let bytes = outputs.values.first().map_or(&[][..], |b| b);
            let words = bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
            return self.machine.feed(Event::Canvas { ticket, words });
        }
        let word = |b: &Vec<u8>| b.first_chunk::<4>().map(|b| u32::from_le_bytes(*b));
        let id = outputs.values.first().and_then(word);
        let row = || -> Option<Vec<f32>> {
            let words = outputs.values.get(1)?.as_chunks().0;
            Some(words.iter().map(|b| f32::from_le_bytes(*b)).collect())
        };
        if let (Some(n), Some(id)) = (self.logprobs, id)
            && let Some(sampled) = self.sampled.iter_mut().rev().find(|s| s.0 == ticket)
        {
            sampled.1 = row().map(|logits| likely(&logits, id, n));
        }
        if self.want_logits && self.last_chunk == Some(ticket) {
            self.logits = row();
        }
        self.machine.feed(Event::Read { ticket, id });
    }
}
