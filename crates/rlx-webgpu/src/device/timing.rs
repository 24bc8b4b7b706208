//! Times of launches, from the submissions that were asked for them.

use super::Launch;
use crate::gpu::Gpu;
use core::task::{Context, Poll, ready};
use rlx_core::Result;
use rlx_core::runtime::device::{LaunchTime, ProgramId, TimedSubmission};

/// Which submissions are timed.
#[derive(Default)]
pub(super) struct Timing {
    /// Whether those that follow are.
    pub on: bool,
    /// The GPU's id of a submission's times, and what they are times of.
    waiting: Vec<(u32, TimedSubmission)>,
    done: Vec<TimedSubmission>,
}

impl Timing {
    /// Submits the lists, whose dispatches are the launches, and remembers whose times come.
    pub fn submit(
        &mut self,
        gpu: &impl Gpu,
        id: u32,
        lists: &[u32],
        program: ProgramId,
        launches: &[Launch],
    ) {
        gpu.submit_timed(id, lists);
        let launches = launches.iter();
        let launches = launches.map(|l| LaunchTime { step: l.step, kernel: l.kernel, ns: [0, 0] });
        let launches = launches.collect();
        self.waiting.push((id, TimedSubmission { program, launches }));
    }

    /// See [`Device::poll_times`](rlx_core::runtime::device::Device::poll_times).
    pub fn poll(
        &mut self,
        gpu: &impl Gpu,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<TimedSubmission>>> {
        while let Some((id, _)) = self.waiting.first() {
            let times = ready!(gpu.poll_times(*id, cx));
            let (_, mut submission) = self.waiting.remove(0);
            for (launch, ns) in submission.launches.iter_mut().zip(times?) {
                launch.ns = ns;
            }
            self.done.push(submission);
        }
        Poll::Ready(Ok(core::mem::take(&mut self.done)))
    }
}
