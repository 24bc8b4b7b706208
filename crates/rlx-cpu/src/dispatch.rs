//! Steps outside a program, on the threads that programs run on: what `benches/pool` times.

use crate::pool::{Job, Pool};
use crate::turns::Turns;
use rlx_core::{Error, Result};
use std::sync::Arc;

/// What is done, given step and share.
pub type Work = dyn Fn(usize, usize) + Send + Sync;

/// The calling thread and its workers.
pub struct Team {
    pool: Pool<Steps>,
    threads: usize,
}

struct Steps {
    turns: Turns,
    work: Arc<Work>,
}

impl Job for Steps {
    fn walk(&self) {
        self.turns.walk(|turn| (self.work)(turn.step, turn.share));
    }

    fn is_finished(&self) -> bool {
        self.turns.is_finished()
    }

    fn name(&self) -> &str {
        "team"
    }
}

impl Team {
    /// `threads` threads, the calling one included.
    ///
    /// # Errors
    /// `Usage` for 0 threads, `DeviceUnavailable` if the system gives no more threads.
    pub fn new(threads: usize) -> Result<Team> {
        let extra = threads.checked_sub(1).ok_or_else(|| Error::usage("a team of 0 threads"))?;
        Ok(Team { pool: Pool::new(extra)?, threads })
    }

    /// Does `steps` steps in order, each in as many shares as there are threads, as a program is done:
    /// whoever is free takes a share, and a step begins when the one before is done.
    ///
    /// # Errors
    /// `Internal` if `work` panicked.
    pub fn run(&self, steps: usize, work: &Arc<Work>) -> Result<()> {
        let turns = Turns::new(vec![self.threads as u32; steps]);
        self.pool.run(Arc::new(Steps { turns, work: work.clone() }))
    }
}

#[cfg(feature = "internals")]
#[allow(missing_docs)]
pub mod tests {
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    pub fn a_team_does_every_share_of_every_step_once() {
        let team = Team::new(2).unwrap();
        let counts: Arc<Vec<AtomicUsize>> = Arc::new((0..10).map(|_| 0.into()).collect());
        let counted = counts.clone();
        let work: Arc<Work> = Arc::new(move |step, share| {
            counted[2 * step + share].fetch_add(1, SeqCst);
        });
        for _ in 0..20 {
            team.run(5, &work).unwrap();
        }
        assert!(counts.iter().all(|n| n.load(SeqCst) == 20));
    }

    pub fn a_panic_in_a_share_is_an_error_and_the_team_works_on() {
        let team = Team::new(2).unwrap();
        let broken: Arc<Work> = Arc::new(|_, share| assert!(share == 0, "the test's own panic"));
        let e = team.run(1, &broken).unwrap_err();
        assert_eq!(e.what, "a kernel of program team panicked");
        let sound: Arc<Work> = Arc::new(|_, _| ());
        team.run(3, &sound).unwrap();
        assert!(Team::new(0).is_err());
    }
}
