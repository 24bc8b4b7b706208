//! The generation machine: a state machine that owns tokens, not tensors. It says what to do next and is told
//! what happened; it opens nothing, waits for nothing, reads no clock.
//!
//! Submissions of a session run in order, but their answers may arrive in any order: the machine
//! reorders them. Decode steps are submitted before earlier tokens are read: the control block passes
//! the token on within the device. A stop that is found late drops at most as many tokens as the window
//! has steps; nobody has seen them.
//!
//! A model that fills blocks has passes over a block in place of decode steps (see [`blocks`](super::blocks)); a
//! block's tokens come when it is finished.
//!
//! The text is always a prefix of the uncancelled answer. Text that may begin a stop string, or is half a
//! character, is held back: a stop token or a full context releases it, a cancel does not.

use crate::error::{Code, Error};
use crate::runtime::device::Ticket;
use crate::runtime::generate::blocks::{Blocks, IN_FLIGHT, News, Pass};
use crate::text::{TextStream, Tokenizer};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Submit these tokens at position `at`, then call [`Machine::submitted`].
    Prefill {
        /// Tokens of the chunk.
        tokens: Vec<u32>,
        /// Position of the first.
        at: u32,
        /// True if its last row is sampled.
        last: bool,
    },
    /// Submit one decode step, then call [`Machine::submitted`].
    Decode,
    /// Submit one pass over a block, then call [`Machine::submitted`].
    Denoise {
        /// Of a block's first pass: the block's first position, and the prompt's tokens in it.
        begin: Option<(u32, Vec<u32>)>,
    },
    /// The context is full and the answer goes on: call [`Machine::slide`].
    Slide,
    /// Wait for a ticket's answer.
    Await,
    /// Show this text.
    Emit(String),
    /// Tell of a control token, by its name.
    Control(String),
    /// The generation has ended and every ticket has answered. Later calls return the same.
    Done(Reason),
}

/// Why a generation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// A stop token or a stop string.
    Stop,
    /// `max_tokens`, or a full context.
    Length,
    /// The caller cancelled.
    Cancelled,
    /// A submission failed.
    Failed(Error),
}

impl Reason {
    /// OpenAI's `finish_reason`, if there is one.
    pub fn finish(&self) -> Option<&'static str> {
        match self {
            Self::Stop => Some("stop"),
            Self::Length => Some("length"),
            Self::Cancelled | Self::Failed(_) => None,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A ticket answered; `id` is the sampled token, if the step sampled one.
    Read {
        /// Which.
        ticket: Ticket,
        /// The token.
        id: Option<u32>,
    },
    /// A pass over a block answered with the canvas.
    Canvas {
        /// Which.
        ticket: Ticket,
        /// The canvas's words.
        words: Vec<u32>,
    },
    /// A ticket failed.
    Failed {
        /// Which.
        ticket: Ticket,
        /// Why.
        error: Error,
    },
    /// The caller cancels: nothing new is submitted.
    Cancel,
    /// The device is gone; no ticket will answer.
    Lost,
}

/// A generation to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Tokens of the prompt, at least one.
    pub prompt: Vec<u32>,
    /// How many tokens of the prompt are in the caches already; fewer than all.
    pub cached: usize,
    /// Rows of a chunk.
    pub chunk: usize,
    /// Rows that the caches have.
    pub capacity: usize,
    /// What stands before the answer's newest tokens once these are used up: fewer tokens than rows. The answer ends
    /// there without it. Not of a model that fills blocks.
    pub slide: Option<Vec<u32>>,
    /// Most tokens to sample, at least one.
    pub max_tokens: usize,
    /// Ids that end the answer.
    pub stop_ids: Vec<u32>,
    /// Texts that end the answer.
    pub stops: Vec<String>,
    /// Whether control tokens are told of. Text before one is released, so that no stop string reaches across it.
    pub controls: bool,
    /// Most submissions in flight, chunks of the prompt included; at least one. Use one for a device that
    /// works inside `poll`, in slices: each ticket that is polled begins a slice. [`Machine::set_window`]
    /// may allow more decode steps.
    pub ahead: usize,
    /// Positions of a block, 1 or more, of a model that fills blocks. `cached` and `chunk` are then whole blocks, and
    /// all of the prompt's whole blocks may be cached.
    pub block: Option<usize>,
}

/// The error of a call on a lost device.
pub(super) fn device_lost() -> Error {
    Error::new(Code::DeviceLost, "the device was lost").hint("load the model again")
}

struct Flight {
    ticket: Ticket,
    samples: bool,
    rows: usize,
    /// The first position of the block, of a pass over one.
    block: Option<usize>,
    answer: Option<Answer>,
}

/// What a ticket answered.
enum Answer {
    /// The token, if the step sampled one.
    Id(Option<u32>),
    /// The canvas behind a pass.
    Canvas(Vec<u32>),
}

/// The machine. See the module's page.
pub struct Machine {
    request: Request,
    tokenizer: Arc<Tokenizer>,
    text: TextStream,
    /// Rows submitted.
    fed: usize,
    /// Rows whose submission has answered.
    rows: usize,
    /// Sampling steps submitted.
    asked: usize,
    /// Sampled tokens read, the end token included.
    tokens: Vec<u32>,
    /// How many of them went into the prompt when the context was full, or were left out.
    behind: usize,
    /// How many were left out; `None` before a slide.
    left_out: Option<usize>,
    flights: VecDeque<Flight>,
    /// Most submissions in flight after the prompt's last chunk.
    window: usize,
    /// Whether a step is submitted before the token before it is shown.
    held: bool,
    /// What is to be shown, the first first. Texts follow no texts.
    shown: VecDeque<Action>,
    end: Option<Reason>,
    /// Whether a submission failed, so that the caches' contents are unknown.
    broken: bool,
    /// Whether the device knows of the end: steps behind it change nothing there.
    device_ended: bool,
    /// Whether steps ran on the device behind an end that it did not know of.
    overran: bool,
    /// The last action that submits, until its ticket is known.
    pending: Option<Pending>,
    /// The blocks, of a model that fills them.
    blocks: Option<Blocks>,
}

/// Adds text to what is to be shown.
fn show(shown: &mut VecDeque<Action>, text: &str) {
    match shown.back_mut() {
        Some(Action::Emit(last)) => last.push_str(text),
        _ if text.is_empty() => {}
        _ => shown.push_back(Action::Emit(text.into())),
    }
}

/// A submission without a ticket.
enum Pending {
    /// Whether it samples, and its rows.
    Step(bool, usize),
    /// A pass over the present block.
    Pass,
}

impl Machine {
    /// A machine at the start of a generation.
    pub fn new(request: Request, tokenizer: Arc<Tokenizer>) -> Self {
        Machine {
            text: TextStream::new(request.stops.iter().map(String::as_str))
                .behind(&tokenizer, request.prompt.last().copied()),
            tokenizer,
            fed: request.cached,
            rows: request.cached,
            asked: 0,
            tokens: Vec::new(),
            behind: 0,
            left_out: None,
            flights: VecDeque::new(),
            window: request.ahead,
            held: false,
            shown: VecDeque::new(),
            end: None,
            broken: false,
            device_ended: false,
            overran: false,
            pending: None,
            blocks: request.block.map(|size| Blocks::new(size.max(1), request.prompt.len())),
            request,
        }
    }

    /// Sampled tokens so far, the end token included.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Tokens whose rows are known to be in the caches: a prefix of the prompt and answer, empty after a
    /// submission failed. After a loss of the device, those that were in them.
    pub fn cached(&self) -> Vec<u32> {
        let rows = if self.broken { 0 } else { self.rows };
        let answer = &self.tokens[self.behind..];
        self.request.prompt.iter().chain(answer).take(rows).copied().collect()
    }

    /// Tokens of the answer that the context has no more, once it has slid.
    pub fn left_out(&self) -> Option<usize> {
        self.left_out
    }

    /// Tokens of the prompt, with those of the answer that went into it.
    pub fn prompt_len(&self) -> usize {
        self.request.prompt.len()
    }

    /// Takes the newest tokens of the answer into the prompt of [`Request::slide`], as many as half of the room behind
    /// it, so that the next slide is as far off. Gives the prompt, of which [`slid`](Self::slid) says what is cached.
    pub fn slide(&mut self) -> &[u32] {
        if let Some(prompt) = &self.request.slide {
            let room = self.request.capacity.saturating_sub(prompt.len());
            self.behind = self.tokens.len();
            let left_out = self.behind.saturating_sub((room / 2).max(1));
            self.request.prompt = [prompt, &self.tokens[left_out..]].concat();
            self.left_out = Some(left_out);
        }
        &self.request.prompt
    }

    /// Notes how many tokens of the prompt of [`slide`](Self::slide) are in the caches; fewer than all.
    pub fn slid(&mut self, cached: usize) {
        (self.fed, self.rows) = (cached, cached);
    }

    /// Whether the device ran exactly the tokens of [`cached`](Self::cached): what it keeps beside caches is of these.
    pub fn exact(&self) -> bool {
        !self.broken && !self.overran && self.flights.is_empty()
    }

    /// Passes over blocks so far, of a model that fills them.
    pub fn passes(&self) -> &[Pass] {
        self.blocks.as_ref().map_or(&[], Blocks::passes)
    }

    /// Rows of the prompt that are known to be in the caches.
    pub fn prompt_rows(&self) -> usize {
        self.rows.min(self.request.prompt.len())
    }

    /// Sets the rows of later chunks, and the most chunks in flight; both at least one.
    pub fn set_chunks(&mut self, rows: usize, in_flight: usize) {
        let whole = self.blocks.as_ref().map_or(1, |b| b.size);
        self.request.chunk = (rows / whole * whole).max(whole);
        self.request.ahead = in_flight;
    }

    /// Sets the most submissions in flight after the prompt's last chunk, at least one.
    pub fn set_window(&mut self, steps: usize) {
        self.window = steps;
    }

    /// Has one step in flight, because each waits for the token before it. The next step is then submitted before that
    /// token is shown.
    pub fn hold(&mut self) {
        (self.window, self.held) = (1, true);
    }

    /// Whether a decode step follows the one that was submitted last, unless that one ends the answer.
    pub fn decodes_on(&self) -> bool {
        let prompt = self.fed >= self.request.prompt.len() && self.blocks.is_none();
        prompt && self.end.is_none() && self.has_room()
    }

    /// Whether the context and the answer have room for another step.
    fn has_room(&self) -> bool {
        self.fed < self.request.capacity && self.asked < self.request.max_tokens
    }

    /// The next action.
    pub fn next_action(&mut self) -> Action {
        if !self.held
            && let Some(action) = self.shown.pop_front()
        {
            return action;
        }
        match self.next_step() {
            waits @ (Action::Await | Action::Slide | Action::Done(_)) => {
                self.shown.pop_front().unwrap_or(waits)
            }
            step => step,
        }
    }

    /// What comes next, whatever is to be shown.
    fn next_step(&mut self) -> Action {
        if let Some(reason) = &self.end {
            return if self.flights.is_empty() {
                Action::Done(reason.clone())
            } else {
                Action::Await
            };
        }
        let prompt = &self.request.prompt;
        // What is no whole block of the prompt begins the first block that is filled.
        let end = self.blocks.as_ref().map_or(prompt.len(), |b| b.whole);
        let prefills = self.fed < end;
        // Few chunks are in flight, so that a cancel does not wait for a whole long prompt.
        let most = match (&self.blocks, prefills) {
            (_, true) => self.request.ahead,
            (None, false) => self.window,
            (Some(_), false) => self.window.min(IN_FLIGHT),
        };
        if self.flights.len() >= most.max(1) {
            return Action::Await;
        }
        if prefills {
            let to = end.min(self.fed + self.request.chunk);
            let last = to == prompt.len() && self.blocks.is_none();
            let action = Action::Prefill {
                tokens: prompt[self.fed..to].to_vec(),
                at: self.fed as u32,
                last,
            };
            self.pending = Some(Pending::Step(last, to - self.fed));
            return action;
        }
        if self.blocks.is_some() {
            return self.next_pass();
        }
        if self.has_room() {
            self.pending = Some(Pending::Step(true, 1));
            return Action::Decode;
        }
        if self.slides() && self.flights.is_empty() {
            return Action::Slide;
        }
        Action::Await
    }

    /// Whether the answer goes on where the context is full.
    fn slides(&self) -> bool {
        self.request.slide.is_some() && self.asked < self.request.max_tokens
    }

    /// The next pass over a block, or the end of an answer for which there is no room.
    fn next_pass(&mut self) -> Action {
        let Some(blocks) = &mut self.blocks else { return Action::Await };
        blocks.advance();
        let begin = if blocks.begins() {
            let (at, end) = (blocks.at, blocks.at + blocks.size);
            if end > self.request.capacity {
                self.finish(Reason::Length);
                return self.next_action();
            }
            let prompt = self.request.prompt.get(at..).unwrap_or(&[]);
            Some((at as u32, prompt.to_vec()))
        } else {
            None
        };
        self.pending = Some(Pending::Pass);
        Action::Denoise { begin }
    }

    /// Takes the ticket of the action that [`next_action`](Self::next_action) just returned.
    pub fn submitted(&mut self, ticket: Ticket) {
        let (samples, rows, block) = match self.pending.take() {
            None => return,
            Some(Pending::Step(samples, rows)) => (samples, rows, None),
            Some(Pending::Pass) => (false, 0, self.blocks.as_mut().map(Blocks::submitted)),
        };
        self.fed += rows;
        self.asked += usize::from(samples);
        self.flights.push_back(Flight { ticket, samples, rows, block, answer: None });
    }

    /// Rows that were submitted: the next one's position.
    pub fn fed(&self) -> usize {
        self.fed
    }

    /// Tickets that have not answered, oldest first.
    pub fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.flights.iter().filter(|f| f.answer.is_none()).map(|f| f.ticket)
    }

    /// Takes an event.
    pub fn feed(&mut self, event: Event) {
        match event {
            Event::Read { ticket, id } => self.answered(ticket, Answer::Id(id)),
            Event::Canvas { ticket, words } => self.answered(ticket, Answer::Canvas(words)),
            Event::Failed { ticket, error } => {
                self.flights.retain(|f| f.ticket != ticket);
                self.broken = true;
                self.end_with(Reason::Failed(error));
                self.drain();
            }
            Event::Cancel => self.end_with(Reason::Cancelled),
            Event::Lost => {
                self.flights.clear();
                self.overran = true;
                self.end_with(Reason::Failed(device_lost()));
            }
        }
    }

    fn answered(&mut self, ticket: Ticket, answer: Answer) {
        if let Some(f) = self.flights.iter_mut().find(|f| f.ticket == ticket) {
            f.answer = Some(answer);
        }
        self.drain();
    }

    /// Handles answers in the order of submission.
    fn drain(&mut self) {
        while let Some(Flight { answer: Some(_), .. }) = self.flights.front() {
            let Some(flight) = self.flights.pop_front() else { return };
            if self.broken {
                continue;
            }
            if let (Some(block), Some(answer)) = (flight.block, &flight.answer) {
                self.pass(block, answer);
                continue;
            }
            self.overran |= self.end.is_some() && flight.samples && !self.device_ended;
            // Rows of steps after the end do not count.
            if self.end.is_some() && flight.samples && self.ended_by_token() {
                continue;
            }
            self.rows += flight.rows;
            match flight.answer {
                Some(Answer::Id(Some(id))) if flight.samples => self.token(id),
                Some(_) if flight.samples => {
                    self.broken = true;
                    self.end_with(Reason::Failed(Error::internal(
                        "a step answered without a token",
                    )));
                }
                _ => {}
            }
        }
        let full = self.asked >= self.request.max_tokens
            || (self.fed >= self.request.capacity && !self.slides());
        let drained = self.flights.is_empty() && self.fed >= self.request.prompt.len();
        if self.end.is_none() && full && drained && self.asked > 0 {
            self.finish(Reason::Length);
        }
    }

    /// Takes the answer of a pass over the block at a position.
    fn pass(&mut self, block: usize, answer: &Answer) {
        let Some(blocks) = &mut self.blocks else { return };
        let canvas: &[u32] = if let Answer::Canvas(words) = answer { words } else { &[] };
        match blocks.answer(block, canvas) {
            Ok(News::Step) => {}
            // Of a block in which the answer ended, the caches have tokens that are no part of it.
            Ok(News::Kept(rows)) if self.end.is_none() => self.rows = self.rows.max(rows),
            Ok(News::Kept(_)) => {}
            Ok(News::Finished(tokens)) => {
                let prompt = self.request.prompt.len().saturating_sub(block);
                for id in tokens.into_iter().skip(prompt) {
                    self.token(id);
                }
            }
            Err(error) => {
                self.broken = true;
                self.end_with(Reason::Failed(error));
            }
        }
    }

    fn ended_by_token(&self) -> bool {
        matches!(self.end, Some(Reason::Stop | Reason::Length))
    }

    fn token(&mut self, id: u32) {
        if self.end.is_some() {
            return;
        }
        self.tokens.push(id);
        if self.request.stop_ids.contains(&id) {
            self.device_ended = true;
            return self.finish(Reason::Stop);
        }
        if self.request.controls && self.tokenizer.is_control(id) {
            show(&mut self.shown, self.text.finish());
            let name = String::from_utf8_lossy(self.tokenizer.piece(id)).into_owned();
            self.shown.push_back(Action::Control(name));
        } else {
            show(&mut self.shown, self.text.push_token(&self.tokenizer, id));
        }
        let last = self.tokens.len() >= self.request.max_tokens;
        self.device_ended = last;
        if self.text.stopped() {
            return self.finish(Reason::Stop);
        }
        if last {
            self.finish(Reason::Length);
        }
    }

    /// Ends a complete answer: text that was held back, because it might have begun a stop string, is
    /// released.
    fn finish(&mut self, reason: Reason) {
        if self.end.is_none() {
            show(&mut self.shown, self.text.finish());
            self.end = Some(reason);
        }
    }

    /// Ends an incomplete answer: text that is held back is dropped.
    fn end_with(&mut self, reason: Reason) {
        self.end.get_or_insert(reason);
    }
}
