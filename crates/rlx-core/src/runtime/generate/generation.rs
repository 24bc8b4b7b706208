//! A generation: submits what its machine decides, and makes events of the answers.

use crate::error::{Code, Error, Result};
use crate::models::Diffusion;
use crate::runtime::device::{Outputs, Submission, Ticket, Write, WriteTo};
use crate::runtime::generate::blocks::Pass;
use crate::runtime::generate::constraint::{Constrained, Constraint};
use crate::runtime::generate::engine::{Engine, words};
use crate::runtime::generate::machine::{Action, Event, Machine, Reason};
use crate::runtime::generate::options::Progress;
use crate::runtime::generate::window::Window;
use crate::sample::canvas::Filling;
use crate::sample::{Control, Likely, likely};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::task::{Context, Poll};

/// A generation in progress. It borrows nothing: poll it with its engine.
pub struct Generation {
    pub(super) machine: Machine,
    pub(super) window: Window,
    pub(super) control: Control,
    pub(super) seed: u64,
    /// Writes that go with the first submission.
    pub(super) first: Vec<Write>,
    pub(super) prompt_len: usize,
    pub(super) reused: usize,
    pub(super) want_logits: bool,
    pub(super) logits: Option<Vec<f32>>,
    pub(super) last_chunk: Option<Ticket>,
    /// How many of the likeliest tokens are told, if any are.
    pub(super) logprobs: Option<usize>,
    /// Whether programs may have been added that are not there yet.
    pub(super) adding: bool,
    /// Submissions that sample, by the tokens that they give; of each how likely it was.
    pub(super) sampled: Vec<(Ticket, Option<Likely>)>,
    pub(super) finished: bool,
    pub(super) turn: u64,
    /// When the oldest submission in flight began, at the earliest.
    pub(super) since: f64,
    /// Most chunks in flight.
    pub(super) most_ahead: usize,
    /// How blocks are filled, and by which model.
    pub(super) filling: Option<(Filling, Diffusion)>,
    /// What limits its tokens.
    pub(super) constrained: Option<Constrained>,
    /// Whether the next decode step has begun.
    pub(super) begun: bool,
}

impl Generation {
    /// Stops the generation: nothing new is submitted. Keep polling until every ticket has answered.
    pub fn cancel(&mut self) {
        self.adding = false;
        self.machine.feed(Event::Cancel);
    }

    /// Has a constraint limit the answer's tokens. Call it before the first poll.
    ///
    /// # Errors
    /// `Usage` for a model that fills blocks, which writes no token after another.
    pub fn constrain(&mut self, engine: &Engine, constraint: Box<dyn Constraint>) -> Result<()> {
        if self.filling.is_some() {
            let what = "a model that fills blocks cannot be held to a grammar";
            return Err(Error::usage(what).hint("leave the grammar out, or take another model"));
        }
        self.constrained = Some(Constrained::new(constraint, engine.compiled.module.vocab));
        self.machine.hold();
        Ok(())
    }

    /// Tokens of the prompt.
    pub fn prompt_tokens(&self) -> usize {
        self.prompt_len
    }

    /// Tokens of the prompt whose rows were in the caches from earlier turns.
    pub fn reused_tokens(&self) -> usize {
        self.reused
    }

    /// Tokens of the answer that were left out of a full context, if it slid: see [`GenerateOptions::slide`].
    ///
    /// [`GenerateOptions::slide`]: crate::runtime::generate::options::GenerateOptions::slide
    pub fn left_out(&self) -> Option<usize> {
        self.machine.left_out()
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
                Poll::Ready(Err(error)) => self.fail(error),
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
                    self.begin_next(engine);
                }
                Action::Decode => {
                    engine.rings.submit(self.machine.fed() + 1);
                    let answer = self.decode(engine);
                    self.note(answer, false, true);
                    self.begin_next(engine);
                }
                Action::Denoise { begin } => {
                    let answer = self.denoise(engine, begin);
                    self.note(answer, false, false);
                }
                Action::Slide => {
                    if let Err(error) = self.slide(engine) {
                        self.fail(error);
                    }
                }
                Action::Await => {
                    let before = self.machine.prompt_rows();
                    let in_flight = self.machine.tickets().count();
                    if !self.poll_tickets(engine, cx) {
                        if self.constrained.is_some() {
                            return Poll::Pending;
                        }
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
                        return Poll::Ready(Some(Progress::Prompt(
                            rows,
                            self.machine.prompt_len(),
                        )));
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
            Err(error) => self.fail(error),
        }
    }

    /// Which tokens the step may sample that is submitted next.
    fn allow(&mut self, engine: &Engine) -> Result<Vec<Write>> {
        let Some(constrained) = &mut self.constrained else { return Ok(Vec::new()) };
        let write = constrained.next(self.machine.tokens(), engine.states[1])?;
        Ok(write.into_iter().collect())
    }

    /// The program of a decode step.
    fn decoder(&self) -> &'static str {
        if self.logprobs.is_some() { "decode_logits" } else { "decode" }
    }

    /// Submits a decode step, or what has not begun of it.
    fn decode(&mut self, engine: &Engine) -> Result<Ticket> {
        let begun = core::mem::take(&mut self.begun);
        let writes = self.allow(engine)?;
        let how = Submission { begun, ..Submission::new(&writes) };
        engine.session.submit(self.decoder(), &how)
    }

    /// Has the device compute the logits of the next step while its mask is made: only the choice among them waits for
    /// the token before. If that token ends the answer, the device knows and writes nothing; if the host ends it, a
    /// row is written behind those that count. A recurrence would be changed, so that it does not run ahead.
    fn begin_next(&mut self, engine: &mut Engine) {
        let ahead = self.constrained.is_some() && engine.recurrences.is_empty();
        if !ahead || !self.machine.decodes_on() {
            return;
        }
        match engine.session.begin(self.decoder()) {
            Ok(queued) => {
                self.begun = true;
                if queued {
                    engine.rings.submit(self.machine.fed() + 1);
                }
            }
            Err(error) => self.fail(error),
        }
    }

    /// Tells the machine that something was not queued.
    fn fail(&mut self, error: Error) {
        match error.code {
            Code::DeviceLost => self.machine.feed(Event::Lost),
            // Nothing was submitted, so a placeholder stands for a ticket.
            _ => self.machine.feed(Event::Failed { ticket: Ticket(u32::MAX), error }),
        }
    }

    fn prefill(&mut self, engine: &Engine, tokens: &[u32], at: u32, last: bool) -> Result<Ticket> {
        self.control.past = at;
        self.control.len = tokens.len() as u32;
        let mut writes = core::mem::take(&mut self.first);
        if last {
            writes.extend(self.allow(engine)?);
        }
        writes.push(Write {
            to: WriteTo::State(engine.states[0]),
            offset: 0,
            bytes: words(&self.control.to_words()),
        });
        writes.push(Write { to: WriteTo::Input(0), offset: 0, bytes: words(tokens) });
        let short = engine.short_rows >= tokens.len();
        let name = match (last, short, self.want_logits || self.logprobs.is_some()) {
            (false, ..) => "prefill",
            (true, true, false) => "prefill_short",
            (true, false, false) => "prefill_last",
            (true, true, true) => "prefill_short_logits",
            (true, false, true) => "prefill_last_logits",
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
