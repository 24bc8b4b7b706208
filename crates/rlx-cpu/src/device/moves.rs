//! A session's memories between submissions: copies, reads, and a larger arena.

use super::{Inner, Queued, gone};
use crate::place::Space;
use core::ops::Range;
use rlx_core::Result;
use rlx_core::runtime::device::{self, Outputs, ProgramId};

impl Inner {
    /// Does what a session's queue begins with, a copy, a read or a larger arena; `None` if that is a submission.
    pub(super) fn moved(&mut self, session: u32) -> Option<bool> {
        let queue = &mut self.sessions.get_mut(&session)?.queue;
        if matches!(queue.front(), Some(Queued::Run(_)) | None) {
            return None;
        }
        match queue.pop_front()? {
            Queued::Run(_) => return None,
            Queued::Copy(copy) => {
                let from = copy.from_offset as usize;
                // What was freed meanwhile is neither read nor written.
                if let Ok(bytes) = self.part(session, copy.from, from..from + copy.bytes as usize)
                    && let Ok(to) = self.memory(session, copy.to)
                    && let Some(to) = to.get_mut(copy.to_offset as usize..)
                    && let Some(to) = to.get_mut(..bytes.len())
                {
                    to.copy_from_slice(&bytes);
                }
            }
            Queued::Grow { ticket, bytes } => {
                let answer = self.grown(session, bytes).map(|()| Outputs::default());
                self.answers.insert(ticket, answer);
            }
            Queued::Read { ticket, from, range } => {
                let value = self.part(session, from, range);
                self.counters.readback_bytes += value.as_ref().map_or(0, |v| v.len() as u64);
                let answer = value.map(|value| Outputs { values: vec![value] });
                self.answers.insert(ticket, answer);
            }
        }
        Some(true)
    }

    /// Gives a session another arena.
    pub(super) fn grown(&mut self, session: u32, bytes: u64) -> Result<()> {
        let s = self.sessions.get_mut(&session).ok_or_else(|| gone("session"))?;
        let before = s.memory.size(s.n_states).unwrap_or(0) as u64;
        s.memory.replace(s.n_states, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        s.bytes = s.bytes - before + bytes;
        self.counters.live_bytes = self.counters.live_bytes - before + bytes;
        Ok(())
    }

    /// Bytes of a memory; of an output that ends within a word, those that it has.
    pub(super) fn part(
        &mut self,
        session: u32,
        of: device::Memory,
        range: Range<usize>,
    ) -> Result<Vec<u8>> {
        let bytes = self.memory(session, of)?;
        let end = range.end.min(bytes.len());
        Ok(bytes.get(range.start..end).unwrap_or(&[]).to_vec())
    }

    /// The whole of a session's memory.
    pub(super) fn memory(&mut self, session: u32, memory: device::Memory) -> Result<&mut [u8]> {
        if let device::Memory::Output(p, n) = memory {
            return self.output(session, p.0, n as usize);
        }
        let s = self.sessions.get_mut(&session).ok_or_else(|| gone("session"))?;
        match memory {
            device::Memory::State(n) if (n as usize) < s.n_states => s.memory.bytes(n as usize),
            device::Memory::State(_) | device::Memory::Output(..) => Err(gone("state")),
            device::Memory::Tensor(t) => {
                s.tensors.get_mut(&t.0).ok_or_else(|| gone("tensor"))?.bytes(0)
            }
            device::Memory::Input(p, n) => {
                s.inputs.get_mut(&p.0).ok_or_else(|| gone("input"))?.bytes(n as usize)
            }
        }
    }

    /// Output `i` of a program, as its last run left it.
    pub(super) fn output(&mut self, session: u32, program: u32, i: usize) -> Result<&mut [u8]> {
        let loaded = self.programs.get(&program).ok_or_else(|| gone("program"))?;
        let place = *loaded.built.outputs.get(i).ok_or_else(|| gone("output"))?;
        let s = self.sessions.get_mut(&session).ok_or_else(|| gone("session"))?;
        let bytes: &mut [u8] = match place.space {
            Space::State(i) => s.memory.bytes(i)?,
            Space::Arena => s.memory.bytes(s.n_states)?,
            Space::Input(i) => match s.inputs.get_mut(&program) {
                Some(inputs) => inputs.bytes(i)?,
                None => &mut [],
            },
            Space::Weight(i) => {
                let model = self.models.get(&s.model).ok_or_else(|| gone("model"))?;
                s.weight = model.weights.bytes(i).to_vec();
                &mut s.weight
            }
        };
        Ok(bytes.get_mut(place.range()).unwrap_or(&mut []))
    }

    /// Bytes of a session's memory, whole words.
    pub(super) fn size(&self, session: u32, memory: device::Memory) -> Option<u64> {
        let s = self.sessions.get(&session)?;
        let built = |p: ProgramId| {
            let loaded = self.programs.get(&p.0).filter(|l| l.model == s.model);
            loaded.map(|l| &l.built)
        };
        let bytes = match memory {
            device::Memory::State(n) if (n as usize) < s.n_states => s.memory.size(n as usize)?,
            device::Memory::State(_) => return None,
            device::Memory::Tensor(t) => s.tensors.get(&t.0)?.size(0)?,
            device::Memory::Input(p, n) => *built(p)?.inputs.get(n as usize)?,
            device::Memory::Output(p, n) => built(p)?.outputs.get(n as usize)?.bytes,
        };
        Some((bytes as u64).next_multiple_of(4))
    }
}
