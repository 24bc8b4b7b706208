//! When each step of a run began and ended, for [`Device::time_launches`]. In wasm there is no clock that is
//! fine enough, so pages have no such times.
//!
//! [`Device::time_launches`]: rlx_core::runtime::device::Device::time_launches

use crate::program::Built;
use crate::turns::lock;
use rlx_core::runtime::device::{LaunchTime, ProgramId, TimedSubmission};
use std::sync::Mutex;
use std::time::Instant;

/// The times of a run's steps, in nanoseconds after `zero`.
pub(crate) struct Times {
    zero: Instant,
    steps: Mutex<Vec<[u64; 2]>>,
}

impl Times {
    pub(crate) fn new(zero: Instant, steps: usize) -> Times {
        Times { zero, steps: Mutex::new(vec![[u64::MAX, 0]; steps]) }
    }

    /// Does a share of a step. The step lasts from its first share's begin to its last one's end.
    pub(crate) fn of(&self, step: usize, work: impl FnOnce()) {
        let now = || u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let begin = now();
        work();
        let end = now();
        if let Some(times) = lock(&self.steps).get_mut(step) {
            *times = [times[0].min(begin), times[1].max(end)];
        }
    }

    /// The times of steps that were computed.
    pub(crate) fn submission(&self, program: ProgramId, built: &Built) -> TimedSubmission {
        let steps = lock(&self.steps);
        let launches = steps.iter().zip(&built.steps).zip(0..);
        let launches = launches.filter(|((ns, _), _)| ns[0] <= ns[1]);
        let launches =
            launches.map(|((ns, s), step)| LaunchTime { step, kernel: s.name, ns: *ns }).collect();
        TimedSubmission { program, launches }
    }
}
