//! Where workers wait for each other: a short spin, then a parked thread.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};

/// Turns of the spin before a thread parks: tens of microseconds, several steps of a small model.
const SPINS: u32 = 4000;

/// A barrier for a fixed number of threads, used any number of times.
pub(crate) struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    round: AtomicU32,
    parked: AtomicUsize,
    broken: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    pub(crate) fn new(threads: usize) -> Barrier {
        Barrier {
            threads,
            arrived: AtomicUsize::new(0),
            round: AtomicU32::new(0),
            parked: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Returns when every thread is here. False if one of them never will be.
    ///
    /// What a thread wrote before it arrived, every thread sees after.
    pub(crate) fn wait(&self) -> bool {
        if self.threads > 1 {
            let round = self.round.load(SeqCst);
            if self.arrived.fetch_add(1, SeqCst) + 1 == self.threads {
                self.arrived.store(0, SeqCst);
                self.release();
            } else {
                self.wait_for(round);
            }
        }
        !self.broken.load(SeqCst)
    }

    /// Lets everybody go, now and at every later wait: a thread has failed.
    pub(crate) fn break_up(&self) {
        self.broken.store(true, SeqCst);
        self.release();
    }

    fn release(&self) {
        self.round.fetch_add(1, SeqCst);
        // A thread that parks counts itself before it looks at the round again, under the lock:
        // either it sees the new round, or it is seen here.
        if self.parked.load(SeqCst) > 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.wake.notify_all();
        }
    }

    fn wait_for(&self, round: u32) {
        let waits = || self.round.load(SeqCst) == round && !self.broken.load(SeqCst);
        for _ in 0..SPINS {
            if !waits() {
                return;
            }
            core::hint::spin_loop();
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.parked.fetch_add(1, SeqCst);
        while waits() {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.parked.fetch_sub(1, SeqCst);
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_before_everybody_has_come() {
        const ROUNDS: usize = if cfg!(miri) { 5 } else { 2000 };
        let (barrier, count) = (Barrier::new(3), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        count.fetch_add(1, SeqCst);
                        assert!(barrier.wait());
                        assert_eq!(count.load(SeqCst), 3 * round);
                        assert!(barrier.wait());
                    }
                });
            }
        });
    }

    #[test]
    fn a_broken_barrier_lets_everybody_go() {
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| barrier.wait());
            barrier.break_up();
            assert!(!waiting.join().unwrap());
        });
        assert!(!barrier.wait());
    }
}
