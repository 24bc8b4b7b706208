//! Times of a list's work, by events around each piece, outside of a graph: HIP 5 has no events in graphs. Where the
//! card runs a kernel faster than the host queues one, the time is the host's.

use super::handles::Event;
use super::{Hip, missing};
use crate::driver::Work;
use rlx_core::{Error, Result};

/// Events in front of each piece of work and behind the last one.
pub(super) struct Timed(Vec<Event>);

impl Hip {
    fn timed_mark(&self) -> Result<Event> {
        let mut event = self.card.timed_event()?;
        self.card.mark(&mut event)?;
        Ok(event)
    }

    pub(super) fn queue_timed(&self, times: u32, work: &[Work]) -> Result<()> {
        if self.zero.lock().is_none() {
            let zero = self.timed_mark()?;
            *self.zero.lock() = Some(zero);
        }
        let mut events = vec![self.timed_mark()?];
        let queued = work.iter().try_for_each(|work| {
            self.queue(work)?;
            events.push(self.timed_mark()?);
            Ok(())
        });
        // What is queued may use the events until it has run.
        queued.inspect_err(|_: &Error| self.come_to_rest())?;
        self.timed.lock().insert(times, Timed(events));
        Ok(())
    }

    pub(super) fn times(&self, times: u32) -> Result<Option<Vec<[u64; 2]>>> {
        let mut all = self.timed.lock();
        let Timed(events) =
            all.get(&times).ok_or_else(|| missing("submission with times", times))?;
        let zero = self.zero.lock();
        let (Some(zero), Some(first), Some(last)) = (zero.as_ref(), events.first(), events.last())
        else {
            return Err(missing("submission with times", times));
        };
        if !self.card.has_passed(last)? {
            return Ok(None);
        }
        // Milliseconds of f32 are too coarse between submissions that are far apart, and fine within one.
        let begun = self.card.nanoseconds(zero, first)?;
        let since = |event| Ok(begun + self.card.nanoseconds(first, event)?);
        let at: Vec<u64> = events.iter().map(since).collect::<Result<_>>()?;
        all.remove(&times);
        Ok(Some(at.array_windows().copied().collect()))
    }
}
