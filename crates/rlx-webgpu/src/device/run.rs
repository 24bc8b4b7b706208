//! A program in a session: recorded once, submitted for every token.

use super::{Buffer, Built, Launch, Pending, Session, State, WebGpuDevice, unknown};
use crate::gpu::{Binding, Command, Gpu, Usage};
use crate::kernels::{BindingResource, STEP_BYTES};
use core::task::{Context, Poll, Waker};
use rlx_core::ir::lir::Program;
use rlx_core::runtime::device::{Outputs, ProgramId, SessionId, Submission, Write, WriteTo};
use rlx_core::{Error, Result};

/// A readback buffer and the list that copies outputs into it.
pub(super) struct Slot {
    pub buffer: Buffer,
    pub list: u32,
    /// Whether a submission is on its way into it.
    pub busy: bool,
}

pub(super) struct Run {
    pub bind_groups: Vec<u32>,
    /// Its launches in order, in about as many lists as it may have pieces, or fewer.
    pub lists: Vec<u32>,
    launches: usize,
    /// How many of its lists, and of its launches, are before the program's cut: none without one.
    pub body: (usize, usize),
    /// As many as were ever in flight at once.
    pub slots: Vec<Slot>,
}

/// Submissions that a program may be cut into.
const MOST_PIECES: usize = 16;

/// Bytes of an output in the readback buffer: copies are whole words.
fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(4)
}

/// Cuts a readback buffer into the program's outputs.
pub(super) fn outputs(program: &Program, bytes: &[u8]) -> Outputs {
    let mut at = 0;
    let values = program
        .outputs
        .iter()
        .map(|o| {
            let value = bytes[at..at + o.slice.bytes as usize].to_vec();
            at += padded(o.slice.bytes) as usize;
            value
        })
        .collect();
    Outputs { values }
}

/// The buffer a write goes to.
fn destination(to: WriteTo, built: &Built, session: &Session) -> Option<Buffer> {
    match to {
        WriteTo::Input(n) => built.inputs.get(n as usize).copied(),
        WriteTo::State(n) => session.states.get(n as usize).copied(),
    }
}

/// Bytes of what a write goes to, as the program declares it: buffers are whole words and more.
fn declared(to: WriteTo, built: &Built) -> Option<u64> {
    match to {
        WriteTo::Input(n) => built.program.inputs.get(n as usize).map(|i| i.bytes),
        WriteTo::State(n) => built.program.states.get(n as usize).map(|s| s.bytes),
    }
}

/// Checks every write before the first one is made: whole words, but for the end of an input or a state.
pub(super) fn check(writes: &[Write], built: &Built, session: &Session) -> Result<()> {
    for w in writes {
        let bytes = w.bytes.len() as u64;
        let end = w.offset.checked_add(bytes);
        let fits = destination(w.to, built, session)
            .is_some_and(|b| end.is_some_and(|end| end <= b.bytes));
        let whole = bytes.is_multiple_of(4) || end == declared(w.to, built);
        if !fits || !whole || !w.offset.is_multiple_of(4) {
            return Err(Error::usage(format!(
                "a write of {bytes} bytes at {} does not fit {:?}",
                w.offset, w.to
            )));
        }
    }
    Ok(())
}

impl<G: Gpu> WebGpuDevice<G> {
    /// Makes bind groups and records the launches.
    pub(super) fn record(&self, s: &mut State, key: (SessionId, ProgramId)) -> Result<Run> {
        let session = s.sessions.get(&key.0).ok_or_else(|| unknown("session", key.0.0))?;
        let built = s.programs.get(&key.1).ok_or_else(|| unknown("program", key.1.0))?;
        let model = s.models.get(&built.model).ok_or_else(|| unknown("model", built.model.0))?;
        let mut bind_groups = Vec::with_capacity(built.launches.len());
        let mut commands = Vec::with_capacity(built.launches.len());
        for (i, launch) in built.launches.iter().enumerate() {
            match self.gpu.poll_pipeline(launch.pipeline, &mut Context::from_waker(Waker::noop())) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => {
                    return Err(Error::usage("the program's ticket has not answered yet"));
                }
            }
            let offset = i as u64 * STEP_BYTES;
            let mut bindings =
                vec![Binding { buffer: built.constants.id, offset, size: STEP_BYTES }];
            for memory in &launch.memory {
                let buffer = match *memory {
                    BindingResource::Arena(n) => session.arena.get(n as usize),
                    BindingResource::State(n) => session.states.get(n as usize),
                    BindingResource::Weights(n) => model.buffers.get(n as usize),
                    BindingResource::Input(n) => built.inputs.get(n as usize),
                    BindingResource::Book(book) => {
                        model.books.iter().find(|b| b.0 == book).map(|b| &b.1)
                    }
                };
                let buffer = buffer.ok_or_else(|| {
                    Error::internal(format!("a step binds {memory:?}, which is not there"))
                })?;
                bindings.push(Binding { buffer: buffer.id, offset: 0, size: buffer.bytes });
            }
            let bind_group = s.ids.next();
            self.gpu.create_bind_group(bind_group, launch.pipeline, &bindings);
            bind_groups.push(bind_group);
            commands.push(Command::Dispatch {
                pipeline: launch.pipeline,
                bind_group,
                groups: launch.groups,
            });
        }
        let part = commands.len().div_ceil(MOST_PIECES).max(1);
        let record = |commands: &[Command]| {
            let list = s.ids.next();
            self.gpu.record(list, commands);
            list
        };
        let before = |l: &&Launch| built.program.cut().is_some_and(|c| (l.step as usize) < c.step);
        let (body, rest) = commands.split_at(built.launches.iter().take_while(before).count());
        let lists = body.chunks(part).chain(rest.chunks(part)).map(record).collect();
        let body = (body.len().div_ceil(part), body.len());
        Ok(Run { bind_groups, lists, launches: commands.len(), body, slots: Vec::new() })
    }

    /// Queues writes that [`check`] let pass.
    pub(super) fn write_all(&self, s: &State, key: (SessionId, ProgramId), writes: &[Write]) {
        let (Some(session), Some(built)) = (s.sessions.get(&key.0), s.programs.get(&key.1)) else {
            return;
        };
        for w in writes {
            if let Some(buffer) = destination(w.to, built, session)
                && !w.bytes.is_empty()
            {
                let (words, tail) = w.bytes.split_at(w.bytes.len() / 4 * 4);
                if !words.is_empty() {
                    self.gpu.write_buffer(buffer.id, w.offset, words);
                }
                if !tail.is_empty() {
                    let mut word = [0; 4];
                    word[..tail.len()].copy_from_slice(tail);
                    self.gpu.write_buffer(buffer.id, w.offset + words.len() as u64, &word);
                }
            }
        }
    }

    /// Submits the launches, in so many pieces or fewer, and with the last the copies of their outputs; only those
    /// behind the program's cut if the others were submitted before.
    pub(super) fn launch(
        &self,
        s: &mut State,
        key: (SessionId, ProgramId),
        how: &Submission<'_>,
        rest: bool,
    ) -> Result<Pending> {
        let (bytes, outputs): (u64, usize) = if !how.read {
            (0, 0)
        } else {
            let built = s.programs.get(&key.1).ok_or_else(|| unknown("program", key.1.0))?;
            let outputs = &built.program.outputs;
            (outputs.iter().map(|o| padded(o.slice.bytes)).sum(), outputs.len())
        };
        let slot = if bytes == 0 { None } else { Some(self.slot(s, key, bytes)?) };
        let built = s.programs.get(&key.1).ok_or_else(|| unknown("program", key.1.0))?;
        let run = s.runs.get_mut(&key).ok_or_else(|| Error::internal("no run was recorded"))?;
        let (skipped, launched) = if rest { run.body } else { (0, 0) };
        let mut lists = run.lists[skipped..].to_vec();
        let launches = lists.len();
        lists.extend(slot.map(|slot| run.slots[slot].list));
        s.counters.dispatches += (run.launches - launched) as u64;
        if s.timing.on && run.launches > launched {
            s.counters.submits += 1;
            s.timing.submit(&self.gpu, s.ids.next(), &lists, key.1, &built.launches[launched..]);
        } else {
            let pieces = (how.pieces as usize).clamp(1, launches.max(1));
            let mut from = 0;
            for piece in 1..=pieces {
                let to = if piece == pieces { lists.len() } else { piece * launches / pieces };
                s.counters.submits += 1;
                self.gpu.submit(&lists[from..to]);
                from = to;
            }
        }
        Ok(match slot {
            None => {
                let fence = s.ids.next();
                self.gpu.fence(fence);
                Pending::Fence { fence, outputs }
            }
            Some(slot) => {
                run.slots[slot].busy = true;
                let read = s.ids.next();
                self.gpu.read(read, run.slots[slot].buffer.id, bytes);
                Pending::Read { key, slot, read }
            }
        })
    }

    /// A free readback buffer of the run, made if all are in flight.
    fn slot(&self, s: &mut State, key: (SessionId, ProgramId), bytes: u64) -> Result<usize> {
        let missing = || Error::internal("no run was recorded");
        let run = s.runs.get(&key).ok_or_else(missing)?;
        if let Some(free) = run.slots.iter().position(|slot| !slot.busy) {
            return Ok(free);
        }
        let buffer = self.create(s, bytes, Usage::Readback, "readback");
        let list = s.ids.next();
        let built = s.programs.get(&key.1).ok_or_else(missing)?;
        let mut to_offset = 0;
        let mut commands = Vec::new();
        for o in &built.program.outputs {
            let slice = &o.slice;
            let at = s.output(key, slice);
            let (from, from_offset) =
                at.ok_or_else(|| Error::internal(format!("output {} is nowhere", o.name)))?;
            let bytes = padded(slice.bytes);
            if bytes > 0 {
                commands.push(Command::Copy {
                    from: from.id,
                    from_offset,
                    to: buffer.id,
                    to_offset,
                    bytes,
                });
            }
            to_offset += bytes;
        }
        self.gpu.record(list, &commands);
        let run = s.runs.get_mut(&key).ok_or_else(missing)?;
        run.slots.push(Slot { buffer, list, busy: false });
        Ok(run.slots.len() - 1)
    }
}
