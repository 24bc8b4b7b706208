//! Times of launches, from the submissions that were asked for them.

use super::run::Key;
use super::{CudaDevice, Part, State};
use crate::driver::Driver;
use core::task::{Context, Poll};
use rlx_core::runtime::device::{LaunchTime, TimedSubmission};
use rlx_core::{Error, Result};

/// Which submissions are timed.
#[derive(Default)]
pub(super) struct Timing {
    /// Whether those that follow are.
    pub on: bool,
    /// The driver's number of a submission's times, and what they are times of.
    waiting: Vec<(u32, TimedSubmission)>,
    done: Vec<TimedSubmission>,
}

impl<D: Driver> CudaDevice<D> {
    /// Queues a run one piece of work after the other. `rest`: without what stands before the program's cut.
    pub(super) fn launch_timed(&self, s: &mut State, key: Key, rest: bool) -> Result<()> {
        let [body, mut work] = Self::work_of(s, key)?;
        let all = s.programs.get(&key.program).map(|built| &built.parts);
        let all = all.ok_or_else(|| Error::internal("no program is timed"))?;
        let skipped = if rest { body.len() } else { 0 };
        if !rest {
            work = [body, work].concat();
        }
        let launches = all[skipped..].iter().map(|(step, part)| {
            let kernel = match part {
                Part::Kernel(_, kernel) => kernel.entry,
                Part::Product(_) => "library",
                Part::Exchange(_) => "exchange",
            };
            LaunchTime { step: *step, kernel, ns: [0, 0] }
        });
        let submission = TimedSubmission { program: key.program, launches: launches.collect() };
        let id = s.ids.next();
        self.driver.submit_timed(id, &work)?;
        s.counters.dispatches += work.len() as u64;
        s.timing.waiting.push((id, submission));
        Ok(())
    }

    /// See [`Device::poll_times`](rlx_core::runtime::device::Device::poll_times).
    pub(super) fn poll_timing(
        &self,
        s: &mut State,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<TimedSubmission>>> {
        while let Some((id, _)) = s.timing.waiting.first() {
            let times = match self.driver.poll_times(*id) {
                Ok(None) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                times => times,
            };
            let (_, mut submission) = s.timing.waiting.remove(0);
            let times = match times {
                Ok(times) => times.unwrap_or_default(),
                Err(e) => return Poll::Ready(Err(e)),
            };
            for (launch, ns) in submission.launches.iter_mut().zip(times) {
                launch.ns = ns;
            }
            s.timing.done.push(submission);
        }
        Poll::Ready(Ok(core::mem::take(&mut s.timing.done)))
    }
}
