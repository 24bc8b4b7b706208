//! Times of a list's work, by events of a graph.
//!
//! Events that are queued beside launches would time the host: it queues launches slower than a card runs short
//! kernels. As nodes of a graph, between its kernels, they have the card's times.

use super::{Cuda, List, error, exclusive, missing, shared};
use crate::driver::Work;
use cudarc::driver::sys::{self, CUstreamCaptureMode};
use cudarc::driver::{CudaEvent, CudaGraph};
use rlx_core::{Error, Result};

/// A submission that is timed: its events are in front of each piece of its work and behind the last one.
pub(super) struct Timed {
    /// It is kept until its events have passed.
    _graph: List,
    events: Vec<CudaEvent>,
}

impl Cuda {
    fn event(&self) -> Result<CudaEvent> {
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        self.context.new_event(timed).map_err(|e| error("an event", e))
    }

    /// Queues an event's node of the graph that is being recorded.
    fn mark(&self, event: &CudaEvent) -> Result<()> {
        let flags = sys::CUevent_record_flags_enum::CU_EVENT_RECORD_EXTERNAL as u32;
        // SAFETY: the event lives until the graph that has its node was dropped: `Timed` has both.
        let done = unsafe {
            sys::cuEventRecordWithFlags(event.cu_event(), self.stream.cu_stream(), flags)
        };
        done.result().map_err(|e| error("an event", e))
    }

    pub(super) fn queue_timed(&self, times: u32, work: &[Work]) -> Result<()> {
        let failed = |e| error("timing a list", e);
        let _calls = exclusive();
        self.bind()?;
        let events: Vec<CudaEvent> =
            (0..=work.len()).map(|_| self.event()).collect::<Result<_>>()?;
        {
            let mut zero = self.zero.lock();
            if zero.is_none() {
                let event = self.event()?;
                event.record(&self.stream).map_err(failed)?;
                *zero = Some(event);
            }
        }
        self.load_products(work)?;
        self.stream
            .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
            .map_err(failed)?;
        let queued = self.mark(&events[0]).and_then(|()| {
            work.iter().zip(&events[1..]).try_for_each(|(work, event)| {
                self.queue(work, false)?;
                self.mark(event)
            })
        });
        // A capture ends even if something failed.
        let ended = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
        queued?;
        let graph = List(ended.map_err(failed)?);
        graph.0.as_ref().map_or(Ok(()), CudaGraph::launch).map_err(failed)?;
        self.timed.lock().insert(times, Timed { _graph: graph, events });
        Ok(())
    }

    pub(super) fn times(&self, times: u32) -> Result<Option<Vec<[u64; 2]>>> {
        let _calls = shared();
        let failed = |e| error("what was timed", e);
        let mut all = self.timed.lock();
        let timed = all.get(&times).ok_or_else(|| missing("submission with times", times))?;
        let last = timed.events.last().ok_or_else(|| Error::internal("times of nothing"))?;
        if !last.try_is_complete().map_err(failed)? {
            return Ok(None);
        }
        let zero = self.zero.lock();
        let (Some(timed), Some(zero)) = (all.remove(&times), zero.as_ref()) else {
            return Err(missing("submission with times", times));
        };
        // Milliseconds of f32 are too coarse between submissions that are far apart, and fine within one.
        let first = &timed.events[0];
        let since = |from: &CudaEvent, to: &CudaEvent| {
            from.elapsed_ms(to).map(|ms| (f64::from(ms) * 1e6) as u64).map_err(failed)
        };
        let begun = since(zero, first)?;
        let at: Vec<u64> = timed
            .events
            .iter()
            .map(|event| Ok(begun + since(first, event)?))
            .collect::<Result<_>>()?;
        Ok(Some(at.array_windows().copied().collect()))
    }
}
