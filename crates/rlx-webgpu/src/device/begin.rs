//! The first part of a program: what does not wait for the sampling parameters.

use super::{Begun, Buffer, State, WebGpuDevice, unknown};
use crate::gpu::Gpu;
use rlx_core::runtime::device::{ProgramId, SessionId, no_cut};
use rlx_core::{Error, Result};

/// Whether an arena has room for a program's segments.
fn holds(arena: &[Buffer], segments: &[u64]) -> bool {
    segments.iter().enumerate().all(|(i, &bytes)| arena.get(i).is_some_and(|b| b.bytes >= bytes))
}

impl<G: Gpu> WebGpuDevice<G> {
    /// Sees that a program can run in a session and is recorded; gives what had begun there, which ends.
    pub(super) fn prepare(
        &self,
        s: &mut State,
        key: (SessionId, ProgramId),
    ) -> Result<Option<Begun>> {
        self.alive()?;
        let session = s.sessions.get_mut(&key.0).ok_or_else(|| unknown("session", key.0.0))?;
        let begun = session.begun.take();
        let built = s.programs.get(&key.1).ok_or_else(|| unknown("program", key.1.0))?;
        if built.model != session.model {
            return Err(Error::usage("the program and the session belong to different models"));
        }
        if built.program.states.len() > session.states.len()
            || !holds(&session.arena, &built.program.arena_segments)
        {
            return Err(Error::usage("the session is too small for the program"));
        }
        if !s.runs.contains_key(&key) {
            let run = self.record(s, key)?;
            s.runs.insert(key, run);
        }
        Ok(begun)
    }

    /// Submits the launches before the program's cut, as one submission.
    pub(super) fn begin_run(&self, s: &mut State, key: (SessionId, ProgramId)) -> Result<bool> {
        let built = s.programs.get(&key.1).ok_or_else(|| unknown("program", key.1.0))?;
        built.program.cut().ok_or_else(|| no_cut(key.1))?;
        let run = s.runs.get(&key).ok_or_else(|| Error::internal("no run was recorded"))?;
        let (lists, launches) = run.body;
        // Times of launches are those of a whole submission.
        let queued = lists > 0 && !s.timing.on;
        if queued {
            self.gpu.submit(&run.lists[..lists]);
            s.counters.submits += 1;
            s.counters.dispatches += launches as u64;
        }
        if let Some(session) = s.sessions.get_mut(&key.0) {
            session.begun = Some(Begun { program: key.1, queued });
        }
        Ok(queued)
    }

    /// Ends what a session has begun, because something else is queued in it.
    pub(super) fn end_begun(&self, s: &mut State, id: SessionId) {
        if let Some(session) = s.sessions.get_mut(&id) {
            session.begun = None;
        }
    }
}
