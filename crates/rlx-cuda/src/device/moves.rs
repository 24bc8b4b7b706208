//! Copies between memories of a session, and reads of one: nothing of a copy passes through the host.

use super::{Buffer, CudaDevice, Pending, State, unknown};
use crate::driver::{At, Driver};
use rlx_core::ir::lir::{Slice, Space};
use rlx_core::runtime::device::{Copy, Memory, ProgramId, SessionId, Ticket};
use rlx_core::{Error, Result};

impl State {
    /// Where a program's output lies.
    pub(super) fn output(&self, key: (SessionId, ProgramId), slice: &Slice) -> Option<At> {
        let (session, built) = (self.sessions.get(&key.0)?, self.programs.get(&key.1)?);
        let n = slice.index as usize;
        let (buffer, start) = match slice.space {
            Space::Arena => (session.arena, 0),
            Space::State => (*session.states.get(n)?, 0),
            Space::Input => (*built.inputs.get(n)?, 0),
            Space::Weight => {
                let model = self.models.get(&built.model)?;
                let entry = model.plan.entries.get(n)?;
                (*model.buffers.get(entry.buffer as usize)?, entry.offset)
            }
        };
        Some(At { buffer: buffer.id, offset: start + slice.offset })
    }

    /// Where a memory begins, and its bytes in whole words.
    fn memory(&self, id: SessionId, memory: Memory) -> Option<(At, u64)> {
        let session = self.sessions.get(&id)?;
        let program = |p| self.programs.get(&p).filter(|b| b.model == session.model);
        let whole = |b: &Buffer| (At { buffer: b.id, offset: 0 }, b.bytes.next_multiple_of(4));
        Some(match memory {
            Memory::State(n) => whole(session.states.get(n as usize)?),
            Memory::Tensor(t) => whole(session.tensors.get(&t)?),
            Memory::Input(p, n) => whole(program(p)?.inputs.get(n as usize)?),
            Memory::Output(p, n) => {
                let slice = &program(p)?.program.outputs.get(n as usize)?.slice;
                (self.output((id, p), slice)?, slice.bytes.next_multiple_of(4))
            }
        })
    }
}

/// A place behind another one.
fn behind(at: At, bytes: u64) -> At {
    At { offset: at.offset + bytes, ..at }
}

impl<D: Driver> CudaDevice<D> {
    /// Queues copies.
    pub(super) fn copy_all(&self, s: &State, id: SessionId, copies: &[Copy]) -> Result<()> {
        for copy in copies {
            copy.check(|memory| s.memory(id, memory).map(|m| m.1))?;
            let missing = || unknown("session", id.0);
            let (from, _) = s.memory(id, copy.from).ok_or_else(missing)?;
            let (to, _) = s.memory(id, copy.to).ok_or_else(missing)?;
            if copy.bytes > 0 {
                self.driver.copy(
                    behind(from, copy.from_offset),
                    behind(to, copy.to_offset),
                    copy.bytes,
                )?;
            }
        }
        Ok(())
    }

    /// Queues a read of a memory from an offset on.
    pub(super) fn read_memory(
        &self,
        s: &mut State,
        id: SessionId,
        (from, offset): (Memory, u64),
        bytes: u64,
    ) -> Result<Ticket> {
        let found = s.memory(id, from).filter(|&(_, size)| {
            let end = offset.checked_add(bytes).is_some_and(|end| end <= size);
            end && offset.is_multiple_of(4) && bytes.is_multiple_of(4)
        });
        let Some((at, _)) = found else {
            return Err(Error::internal(format!("{bytes} bytes at {offset} are not in {from:?}")));
        };
        let read = s.ids.next();
        self.driver.read(read, &[(behind(at, offset), bytes)])?;
        Ok(s.ticket(Pending::Read {
            read,
            sizes: vec![bytes as usize],
            session: id,
            program: None,
        }))
    }
}
