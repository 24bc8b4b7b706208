//! The submissions of a session: how the front one begins, and who works on it for how long.

use super::{CpuDevice, Inner, Queued, SLICE_MS, gone};
#[cfg(all(target_family = "wasm", target_feature = "atomics"))]
use crate::page_pool;
use crate::program::len_and_done;
use crate::run::Run;
#[cfg(not(target_family = "wasm"))]
use crate::times::Times;
#[cfg(not(target_family = "wasm"))]
use rlx_core::runtime::device::ProgramId;
use rlx_core::runtime::device::{Outputs, WriteTo};
use rlx_core::{Error, Result};
use std::sync::Arc;

impl CpuDevice {
    /// Begins the front submission of a session, unless it has begun: applies its writes and makes its
    /// run. `Ok(None)` if there is nothing left to compute.
    pub(super) fn begin_front(&self, inner: &mut Inner, session: u32) -> Result<Option<()>> {
        let Inner { models, programs, sessions, .. } = inner;
        #[cfg(not(target_family = "wasm"))]
        let clock = &inner.clock;
        let Some(s) = sessions.get_mut(&session) else { return Err(gone("session")) };
        let Some(Queued::Run(front)) = s.queue.front_mut() else { return Err(gone("submission")) };
        if front.run.is_some() {
            return Ok(Some(()));
        }
        let loaded = programs.get(&front.program).ok_or_else(|| gone("program"))?;
        let model = models.get(&loaded.model).ok_or_else(|| gone("model"))?;
        let inputs = s.inputs.get_mut(&front.program).ok_or_else(|| gone("input"))?;
        for write in &front.writes {
            let bytes = match write.to {
                WriteTo::Input(i) => inputs.bytes(i as usize)?,
                WriteTo::State(i) if (i as usize) < s.n_states => s.memory.bytes(i as usize)?,
                WriteTo::State(_) => &mut [],
            };
            let at = usize::try_from(write.offset).unwrap_or(usize::MAX);
            let (end, size) = (at.saturating_add(write.bytes.len()), bytes.len());
            let Some(slot) = bytes.get_mut(at..end) else {
                return Err(Error::internal(format!(
                    "a write of {} bytes at {at} to {:?} of {size} bytes",
                    write.bytes.len(),
                    write.to
                )));
            };
            slot.copy_from_slice(&write.bytes);
        }
        let mut len = usize::MAX;
        if let Some(state) = loaded.built.control {
            let (rows, done) = len_and_done(s.memory.bytes(state)?);
            if done && loaded.built.idle_when_done {
                return Ok(None);
            }
            len = rows;
        }
        // A page's thread never waits, even if web workers help.
        let page = cfg!(target_family = "wasm");
        let pauses = self.clock.is_some() && (self.workers == 1 || page);
        #[cfg_attr(target_family = "wasm", allow(unused_mut))]
        let mut run = Run::new(
            loaded.built.clone(),
            model.weights.clone(),
            &mut s.memory,
            inputs,
            self.level,
            self.workers,
            pauses,
            len,
        )?;
        #[cfg(not(target_family = "wasm"))]
        if let Some(zero) = clock {
            let times = Arc::new(Times::new(*zero, loaded.built.steps.len()));
            (run.times, front.times) = (Some(times.clone()), Some(times));
        }
        let run = Arc::new(run);
        if pauses || self.workers == 1 || page {
            #[cfg(all(target_family = "wasm", target_feature = "atomics"))]
            if self.workers > 1 {
                page_pool::offer(&run, self.workers - 1);
            }
            front.run = Some(run);
            return Ok(Some(()));
        }
        #[cfg(all(feature = "threads", not(target_family = "wasm")))]
        self.pool.run(run.clone())?;
        run.failure().map_or(Ok(None), Err)
    }

    /// Works on the front submission of a session; false if it paused.
    pub(super) fn advance(&self, inner: &mut Inner, session: u32, start: f64) -> bool {
        if let Some(done) = inner.moved(session) {
            return done;
        }
        let mut result = self.begin_front(inner, session);
        let Some(s) = inner.sessions.get_mut(&session) else { return true };
        let Some(Queued::Run(front)) = s.queue.front_mut() else { return true };
        if let Ok(Some(())) = result
            && let Some(run) = &front.run
        {
            run.walk_until(|| self.clock.is_some_and(|now| now() - start >= SLICE_MS));
            if run.is_broken() {
                result = Err(Error::internal("a worker stopped in the middle of its share"));
            } else if !run.is_finished() {
                return false;
            } else if let Some(e) = run.failure() {
                result = Err(e);
            }
            #[cfg(all(target_family = "wasm", target_feature = "atomics"))]
            page_pool::withdraw(run);
        }
        let Some(Queued::Run(done)) = s.queue.pop_front() else { return true };
        let answer = result.and_then(|_| {
            let loaded = inner.programs.get(&done.program).ok_or_else(|| gone("program"))?;
            let (steps, outputs) = (loaded.built.steps.len(), loaded.built.outputs.len());
            #[cfg(not(target_family = "wasm"))]
            if let Some(times) = &done.times {
                inner.timed.push(times.submission(ProgramId(done.program), &loaded.built));
            }
            let outputs = if done.read { outputs } else { 0 };
            let values = (0..outputs)
                .map(|i| inner.output(session, done.program, i).map(Vec::from))
                .collect::<Result<Vec<_>>>()?;
            inner.counters.dispatches += steps as u64;
            inner.counters.readback_bytes += values.iter().map(|v| v.len() as u64).sum::<u64>();
            Ok(Outputs { values })
        });
        inner.answers.insert(done.ticket, answer);
        true
    }
}
