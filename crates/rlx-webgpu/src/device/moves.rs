//! Copies between memories of a session, and reads of one: nothing of a copy passes through the host.

use super::{Buffer, Pending, State, WebGpuDevice, unknown};
use crate::gpu::{Command, Gpu, Usage};
use rlx_core::ir::lir::{Slice, Space};
use rlx_core::runtime::device::{Copy, Memory, ProgramId, SessionId, TensorId};
use rlx_core::{Error, Result};

impl State {
    /// The buffer that a program's output lies in, and bytes from its start.
    pub(super) fn output(
        &self,
        key: (SessionId, ProgramId),
        slice: &Slice,
    ) -> Option<(Buffer, u64)> {
        let (session, built) = (self.sessions.get(&key.0)?, self.programs.get(&key.1)?);
        let n = slice.index as usize;
        let (buffer, start) = match slice.space {
            Space::Arena => (*session.arena.get(n)?, 0),
            Space::State => (*session.states.get(n)?, 0),
            Space::Input => (*built.inputs.get(n)?, 0),
            Space::Weight => {
                let model = self.models.get(&built.model)?;
                let entry = model.plan.entries.get(n)?;
                (*model.buffers.get(entry.buffer as usize)?, entry.offset)
            }
        };
        Some((buffer, start + slice.offset))
    }

    /// The buffer of a memory, where it begins in it, and its bytes in whole words.
    fn memory(&self, id: SessionId, memory: Memory) -> Option<(Buffer, u64, u64)> {
        let session = self.sessions.get(&id)?;
        let program = |p| self.programs.get(&p).filter(|b| b.model == session.model);
        let (buffer, at, bytes) = match memory {
            Memory::State(n) => {
                let buffer = *session.states.get(n as usize)?;
                (buffer, 0, buffer.bytes)
            }
            Memory::Tensor(t) => {
                let (buffer, bytes) = *session.tensors.get(&t)?;
                (buffer, 0, bytes)
            }
            Memory::Input(p, n) => {
                let built = program(p)?;
                let bytes = built.program.inputs.get(n as usize)?.bytes;
                (*built.inputs.get(n as usize)?, 0, bytes)
            }
            Memory::Output(p, n) => {
                let slice = &program(p)?.program.outputs.get(n as usize)?.slice;
                let (buffer, at) = self.output((id, p), slice)?;
                (buffer, at, slice.bytes)
            }
        };
        Some((buffer, at, bytes.next_multiple_of(4)))
    }
}

impl<G: Gpu> WebGpuDevice<G> {
    /// Submits copies.
    pub(super) fn copy_all(&self, s: &mut State, id: SessionId, copies: &[Copy]) -> Result<()> {
        let mut commands = Vec::with_capacity(copies.len());
        for copy in copies {
            copy.check(|memory| s.memory(id, memory).map(|m| m.2))?;
            let missing = || unknown("session", id.0);
            let (from, from_at, _) = s.memory(id, copy.from).ok_or_else(missing)?;
            let (to, to_at, _) = s.memory(id, copy.to).ok_or_else(missing)?;
            if from.id == to.id {
                // WebGPU copies between two buffers: an output may lie in the state that it is copied to.
                return Err(Error::internal(format!("{copy:?} is within one buffer")));
            }
            if copy.bytes > 0 {
                commands.push(Command::Copy {
                    from: from.id,
                    from_offset: from_at + copy.from_offset,
                    to: to.id,
                    to_offset: to_at + copy.to_offset,
                    bytes: copy.bytes,
                });
            }
        }
        if !commands.is_empty() {
            self.once(s, &commands);
        }
        Ok(())
    }

    /// Records commands, submits them and forgets them.
    fn once(&self, s: &mut State, commands: &[Command]) {
        let list = s.ids.next();
        self.gpu.record(list, commands);
        self.gpu.submit(&[list]);
        self.gpu.free_list(list);
        s.counters.submits += 1;
    }

    /// Takes a buffer that its owner made on the same GPU as a tensor of a session; `take` registers it under a
    /// number. Freeing the tensor ends the number and leaves the buffer: the host knows which it did not make.
    ///
    /// # Errors
    /// `Usage` for a session that is not there.
    pub fn adopt(&self, id: SessionId, bytes: u64, take: impl FnOnce(&G, u32)) -> Result<TensorId> {
        self.alive()?;
        let mut s = self.state.lock();
        let s = &mut *s;
        let buffer = Buffer { id: s.ids.next(), bytes };
        let t = TensorId(s.ids.next());
        let session = s.sessions.get_mut(&id).ok_or_else(|| unknown("session", id.0))?;
        take(&self.gpu, buffer.id);
        session.tensors.insert(t, (buffer, bytes.next_multiple_of(4)));
        s.counters.live_bytes += bytes;
        Ok(t)
    }

    /// The GPU's id of the buffer that a tensor lies in, from its start.
    pub fn tensor_buffer(&self, id: SessionId, t: TensorId) -> Option<u32> {
        Some(self.state.lock().sessions.get(&id)?.tensors.get(&t)?.0.id)
    }

    /// Queues a read of a memory from an offset on.
    pub(super) fn read_memory(
        &self,
        s: &mut State,
        id: SessionId,
        (from, offset): (Memory, u64),
        bytes: u64,
    ) -> Result<Pending> {
        let found = s.memory(id, from).filter(|&(_, _, size)| {
            let end = offset.checked_add(bytes).is_some_and(|end| end <= size);
            end && offset.is_multiple_of(4) && bytes.is_multiple_of(4)
        });
        let Some((buffer, at, _)) = found else {
            return Err(Error::internal(format!("{bytes} bytes at {offset} are not in {from:?}")));
        };
        let copied = self.create(s, bytes, Usage::Readback, "read");
        if bytes > 0 {
            self.once(
                s,
                &[Command::Copy {
                    from: buffer.id,
                    from_offset: at + offset,
                    to: copied.id,
                    to_offset: 0,
                    bytes,
                }],
            );
        }
        let read = s.ids.next();
        self.gpu.read(read, copied.id, copied.bytes);
        Ok(Pending::Copied { buffer: copied, read, bytes })
    }
}
