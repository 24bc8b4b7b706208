//! A program in a session: recorded once, submitted for every token.

use super::{Begun, Buffer, Built, CudaDevice, Part, Pending, Session, State, unknown};
use crate::driver::{At, Driver, Exchange, Launch, Parameter, Product, Work};
use crate::kernels::{Argument, Kernel, Memory};
use rlx_core::runtime::device::{
    Outputs, ProgramId, SessionId, Submission, Ticket, Write, WriteTo, no_cut,
};
use rlx_core::sample::control::LEN;
use rlx_core::{Error, Result};

/// A program in a session, with products of the library and blocks of kernels for so many tokens at most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub session: SessionId,
    pub program: ProgramId,
    tokens: u64,
}

/// Tokens that a program has at most where a submission has `tokens`: of a prompt's rest, the library would compute
/// all rows of a chunk.
fn at_most(tokens: u64) -> u64 {
    if tokens <= 128 { 128 } else { tokens.next_multiple_of(256) }
}

impl Key {
    fn new(session: SessionId, program: ProgramId, built: &Built, writes: &[Write]) -> Self {
        let all = built.program.control.map_or(u64::MAX, |c| c.tokens);
        let tokens = built.tokens(writes).map_or(all, |tokens| at_most(tokens).min(all));
        Key { session, program, tokens }
    }
}

impl Built {
    /// How many tokens a submission has that writes this, where its work depends on it.
    fn tokens(&self, writes: &[Write]) -> Option<u64> {
        let control = self.program.control.filter(|c| c.slots == 1)?;
        let is_part = |(_, part): &(u32, Part)| match part {
            Part::Product(p) => p.per_token.is_some(),
            Part::Exchange(_) => false,
            Part::Kernel(_, kernel) => kernel.by_tokens.is_some(),
        };
        if !self.parts.iter().any(is_part) {
            return None;
        }
        let at = 4 * LEN as u64;
        writes.iter().rev().find_map(|w| {
            let from = usize::try_from(at.checked_sub(w.offset)?).ok()?;
            let word = w.bytes.get(from..from + 4)?.as_array()?;
            (w.to == WriteTo::State(control.state)).then(|| u32::from_le_bytes(*word).into())
        })
    }
}

/// Recorded launches.
pub(super) struct Run {
    /// Those before the program's cut: none without one.
    pub body: u32,
    /// The others.
    pub rest: u32,
    /// How many launches each has.
    counts: [u64; 2],
}

/// The buffer a write goes to, and the bytes that the program declares.
fn destination(to: WriteTo, built: &Built, session: &Session) -> Option<(Buffer, u64)> {
    Some(match to {
        WriteTo::Input(n) => {
            (*built.inputs.get(n as usize)?, built.program.inputs.get(n as usize)?.bytes)
        }
        WriteTo::State(n) => {
            (*session.states.get(n as usize)?, built.program.states.get(n as usize)?.bytes)
        }
    })
}

/// Checks every write before the first one is made: whole words, but for the end of an input or a state.
fn check(writes: &[Write], built: &Built, session: &Session) -> Result<()> {
    for w in writes {
        let bytes = w.bytes.len() as u64;
        let end = w.offset.checked_add(bytes);
        let fits =
            destination(w.to, built, session).zip(end).is_some_and(|((_, declared), end)| {
                let whole = bytes.is_multiple_of(4) || end == declared;
                end <= declared.next_multiple_of(4) && whole && w.offset.is_multiple_of(4)
            });
        if !fits {
            let what = format!("a write of {bytes} bytes at {} does not fit {:?}", w.offset, w.to);
            return Err(Error::usage(what));
        }
    }
    Ok(())
}

impl State {
    /// Ends what a session has begun, because something else is queued in it.
    pub(super) fn end_begun(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.begun = None;
        }
    }
}

impl<D: Driver> CudaDevice<D> {
    /// Sees that a program can run in a session and is recorded; gives its key, and what had begun there, which ends.
    fn prepare(
        &self,
        s: &mut State,
        (session, program): (SessionId, ProgramId),
        writes: &[Write],
    ) -> Result<(Key, Option<Begun>)> {
        let id = session;
        let session = s.sessions.get_mut(&id).ok_or_else(|| unknown("session", id.0))?;
        let begun = session.begun.take();
        let built = s.programs.get(&program).ok_or_else(|| unknown("program", program.0))?;
        let key = Key::new(id, program, built, writes);
        if built.model != session.model {
            return Err(Error::usage("the program and the session belong to different models"));
        }
        if built.program.states.len() > session.states.len()
            || built.program.arena_bytes > session.arena.bytes
        {
            return Err(Error::usage("the session is too small for the program"));
        }
        if !s.runs.contains_key(&key) {
            let run = self.record(s, key)?;
            s.runs.insert(key, run);
        }
        Ok((key, begun))
    }

    fn record(&self, s: &mut State, key: Key) -> Result<Run> {
        let parts = Self::work_of(s, key)?;
        let counts = [parts[0].len() as u64, parts[1].len() as u64];
        let (body, rest) = (s.ids.next(), s.ids.next());
        self.driver.record(body, &parts[0])?;
        self.driver.record(rest, &parts[1])?;
        Ok(Run { body, rest, counts })
    }

    /// The work of a program in a session: before its cut, and behind it.
    pub(super) fn work_of(s: &State, key: Key) -> Result<[Vec<Work>; 2]> {
        let session =
            s.sessions.get(&key.session).ok_or_else(|| unknown("session", key.session.0))?;
        let built =
            s.programs.get(&key.program).ok_or_else(|| unknown("program", key.program.0))?;
        let model = s.models.get(&built.model).ok_or_else(|| unknown("model", built.model.0))?;
        let cut = built.program.cut().map_or(0, |c| c.step);
        let at = |argument: &Argument| {
            let buffer = match argument.memory {
                Memory::Arena => Some(&session.arena),
                Memory::State(n) => session.states.get(n as usize),
                Memory::Weights(n) => model.buffers.get(n as usize),
                Memory::Input(n) => built.inputs.get(n as usize),
                Memory::Scratch => built.scratch.as_ref(),
                Memory::Counts => built.counts.as_ref(),
                Memory::Number => None,
            };
            let missing = || {
                Error::internal(format!("a step reads {:?}, which is not there", argument.memory))
            };
            Ok::<At, Error>(At { buffer: buffer.ok_or_else(missing)?.id, offset: argument.offset })
        };
        let parameter = |argument: &Argument| match argument.memory {
            Memory::Number => Ok(Parameter::Number(argument.offset)),
            _ => at(argument).map(Parameter::Place),
        };
        let mut parts = [Vec::new(), Vec::new()];
        for (step, part) in &built.parts {
            let work = match part {
                Part::Kernel(function, kernel) => {
                    let arguments =
                        kernel.arguments.iter().map(parameter).collect::<Result<_>>()?;
                    let &Kernel { threads, shared, early, .. } = kernel;
                    let grid = kernel.grid_of(key.tokens);
                    Work::Launch(Launch {
                        function: *function,
                        grid,
                        threads,
                        shared,
                        arguments,
                        early,
                    })
                }
                Part::Exchange(e) => {
                    let (x, y) = (at(&e.x)?, at(&e.y)?);
                    Work::Exchange(Exchange { what: e.what, x, y, bytes: e.bytes })
                }
                Part::Product(p) => {
                    let rows = p.per_token.map_or(u64::MAX, |n| n.saturating_mul(key.tokens));
                    let rows = u32::try_from(rows).unwrap_or(u32::MAX);
                    Work::Product(Product {
                        x: at(&p.x)?,
                        w: at(&p.w)?,
                        y: at(&p.y)?,
                        rows: p.rows.min(rows),
                        columns: p.columns,
                        k: p.k,
                        floats: p.floats,
                        bias: p.bias.as_ref().map(at).transpose()?,
                        residual: p.residual.as_ref().map(at).transpose()?,
                    })
                }
            };
            parts[usize::from(*step as usize >= cut)].push(work);
        }
        Ok(parts)
    }

    /// Queues the launches before the program's cut.
    pub(super) fn begin_run(&self, s: &mut State, key: (SessionId, ProgramId)) -> Result<bool> {
        let (run, _) = self.prepare(s, key, &[])?;
        let built = s.programs.get(&key.1).ok_or_else(|| unknown("program", key.1.0))?;
        built.program.cut().ok_or_else(|| no_cut(key.1))?;
        // A program is timed as a whole.
        if s.timing.on {
            return Ok(false);
        }
        self.launch(s, run, false)?;
        s.counters.submits += 1;
        if let Some(session) = s.sessions.get_mut(&key.0) {
            session.begun = Some(Begun { program: key.1 });
        }
        Ok(true)
    }

    /// Queues a part of a program.
    fn launch(&self, s: &mut State, key: Key, rest: bool) -> Result<()> {
        let run = s.runs.get(&key).ok_or_else(|| Error::internal("no run was recorded"))?;
        let (list, count) =
            if rest { (run.rest, run.counts[1]) } else { (run.body, run.counts[0]) };
        if count > 0 {
            self.driver.submit(list)?;
            s.counters.dispatches += count;
        }
        Ok(())
    }

    pub(super) fn submit_run(
        &self,
        s: &mut State,
        key: (SessionId, ProgramId),
        how: &Submission<'_>,
    ) -> Result<Ticket> {
        let (run, begun) = self.prepare(s, key, how.writes)?;
        let (Some(session), Some(built)) = (s.sessions.get(&key.0), s.programs.get(&key.1)) else {
            return Err(unknown("session", key.0.0));
        };
        how.check_begun(begun.map(|b| b.program), key.1, built.program.cut())?;
        check(how.writes, built, session)?;
        for w in how.writes {
            if let Some((buffer, _)) = destination(w.to, built, session) {
                self.driver.write(At { buffer: buffer.id, offset: w.offset }, &w.bytes)?;
            }
        }
        if s.timing.on {
            self.launch_timed(s, run, how.begun)?;
        } else {
            if !how.begun {
                self.launch(s, run, false)?;
            }
            self.launch(s, run, true)?;
        }
        s.counters.submits += 1;
        let built = s.programs.get(&key.1).ok_or_else(|| unknown("program", key.1.0))?;
        let program = built.program.clone();
        let outputs = if how.read { program.outputs.as_slice() } else { &[] };
        let mut ranges = Vec::with_capacity(outputs.len());
        for o in outputs {
            let place = s.output(key, &o.slice);
            let place =
                place.ok_or_else(|| Error::internal(format!("output {} is nowhere", o.name)))?;
            ranges.push((place, o.slice.bytes));
        }
        if ranges.iter().all(|r| r.1 == 0) && how.read && !ranges.is_empty() {
            let values = vec![Vec::new(); ranges.len()];
            return Ok(s.ticket(Pending::Answered(Ok(Outputs { values }))));
        }
        let read = s.ids.next();
        // Without outputs it is a read of nothing, which is there once everything before it has run.
        self.driver.read(read, &ranges)?;
        let sizes = ranges.iter().map(|r| r.1 as usize).collect();
        Ok(s.ticket(Pending::Read { read, sizes, session: key.0, program: Some(key.1) }))
    }
}
