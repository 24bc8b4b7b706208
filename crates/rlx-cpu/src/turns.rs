//! Which worker does which share of which step: workers claim shares one by one, and steps follow each other.
//!
//! ```text
//! next = step << 32 | share     claimed by compare-and-swap; a share number past the step's: wait
//! done = shares finished        whoever finishes the last one opens the next step
//! ```
//!
//! Nobody waits for a worker that has claimed nothing, because the system has put it aside or it has not
//! woken yet. On a busy machine that is the difference between a little slower than one thread and a
//! hundred times slower.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use rlx_core::{Error, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Turns of the spin before a worker parks: tens of microseconds, several steps of a small model.
/// Wasm has no pause instruction, so its turns are shorter.
const SPINS: u32 = match (cfg!(miri), cfg!(target_family = "wasm")) {
    (true, _) => 20,
    (_, true) => 20_000,
    _ => 2000,
};

/// A share of a step. Each is handed out once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) step: usize,
    pub(crate) share: usize,
}

/// What there is to do for a thread that asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Turn(Turn),
    /// Others have the last shares of this step.
    Wait(usize),
    /// All is done, or never will be: [`Turns::is_finished`] tells.
    End,
}

/// Locks. Nothing is left half done under a lock here, so a panic elsewhere does not matter. A
/// page's thread must not wait, and locks here are held for a moment: in wasm it spins.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    use std::sync::TryLockError;
    while cfg!(target_family = "wasm") {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(e)) => return e.into_inner(),
            Err(TryLockError::WouldBlock) => core::hint::spin_loop(),
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The order of a run.
pub(crate) struct Turns {
    /// Shares of each step, at least 1.
    shares: Vec<u32>,
    next: AtomicU64,
    done: AtomicU32,
    broken: AtomicBool,
    parked: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Turns {
    pub(crate) fn new(shares: Vec<u32>) -> Turns {
        Turns {
            shares,
            next: AtomicU64::new(0),
            done: AtomicU32::new(0),
            broken: AtomicBool::new(false),
            parked: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// How many shares the step has.
    pub(crate) fn shares(&self, step: usize) -> usize {
        self.shares[step] as usize
    }

    /// The next share, once the steps before it are done. `None` when all are, or when one never
    /// will be: [`is_finished`](Self::is_finished) tells.
    pub(crate) fn claim(&self) -> Option<Turn> {
        loop {
            match self.try_claim() {
                Claim::Turn(turn) => return Some(turn),
                Claim::Wait(step) => self.wait_past(step),
                Claim::End => return None,
            }
        }
    }

    /// As [`claim`](Self::claim), without waiting.
    pub(crate) fn try_claim(&self) -> Claim {
        loop {
            let next = self.next.load(SeqCst);
            let (step, share) = ((next >> 32) as usize, next as u32);
            let Some(&shares) = self.shares.get(step) else { return Claim::End };
            if self.broken.load(SeqCst) {
                return Claim::End;
            }
            if share >= shares {
                return Claim::Wait(step);
            }
            if self.next.compare_exchange(next, next + 1, SeqCst, SeqCst).is_ok() {
                return Claim::Turn(Turn { step, share: share as usize });
            }
        }
    }

    /// Gives a finished share back. What was written in a step, every later claim sees.
    pub(crate) fn finish(&self, turn: Turn) {
        if self.done.fetch_add(1, SeqCst) + 1 == self.shares[turn.step] {
            // Nobody counts between these two: every share of this step is done.
            self.done.store(0, SeqCst);
            self.next.swap((turn.step as u64 + 1) << 32, SeqCst); // not `store`: see `release`
            self.release();
        }
    }

    /// Does a share that was claimed. Should `work` panic, nobody waits for it.
    pub(crate) fn take(&self, turn: Turn, work: impl FnOnce(&Turn)) {
        let guard = BreakOnPanic(self);
        work(&turn);
        core::mem::forget(guard);
        self.finish(turn);
    }

    /// Does shares, with others, until all are done or never will be.
    #[cfg_attr(not(feature = "threads"), allow(dead_code))] // one thread waits for nobody
    pub(crate) fn walk(&self, mut work: impl FnMut(&Turn)) {
        while let Some(turn) = self.claim() {
            self.take(turn, &mut work);
        }
    }

    /// True once every share of every step is done.
    pub(crate) fn is_finished(&self) -> bool {
        (self.next.load(SeqCst) >> 32) as usize >= self.shares.len()
    }

    /// A share will never be done: nobody waits for it.
    pub(crate) fn break_up(&self) {
        self.broken.swap(true, SeqCst);
        self.release();
    }

    /// True if a share will never be done.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(SeqCst)
    }

    fn release(&self) {
        // A worker that parks counts itself before it looks once more, under the lock: either it
        // sees what is new, or it is seen here. What is new was swapped in, not stored: qemu lets this
        // load overtake a store of AArch64 (7.2 on x86; no processor may), and the worker sleeps for ever.
        // x86 stores by swapping anyway.
        if self.parked.load(SeqCst) > 0 {
            drop(lock(&self.lock));
            self.wake.notify_all();
        }
    }

    fn wait_past(&self, step: usize) {
        let waits = || (self.next.load(SeqCst) >> 32) as usize == step && !self.broken.load(SeqCst);
        for _ in 0..SPINS {
            if !waits() {
                return;
            }
            core::hint::spin_loop();
        }
        let mut guard = lock(&self.lock);
        self.parked.fetch_add(1, SeqCst);
        while waits() {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.parked.fetch_sub(1, SeqCst);
    }
}

/// Frees the other workers when this one panics.
struct BreakOnPanic<'a>(&'a Turns);

impl Drop for BreakOnPanic<'_> {
    fn drop(&mut self) {
        self.0.break_up();
    }
}

/// How often memory is asked for that a worker is about to let go.
const ASKS: u32 = 1 << 14;

/// Exclusive access to what runs have in common, once no run holds it. A worker lets go of a run a
/// moment after its last share.
///
/// # Errors
/// `Internal` while a run has it.
pub(crate) fn alone<T>(shared: &mut Arc<T>) -> Result<&mut T> {
    for _ in 0..ASKS {
        if Arc::strong_count(shared) == 1 {
            break;
        }
        // A page's thread does not sleep.
        #[cfg(not(target_family = "wasm"))]
        std::thread::sleep(std::time::Duration::from_micros(50));
        core::hint::spin_loop();
    }
    Arc::get_mut(shared).ok_or_else(|| Error::internal("memory that a run still has"))
}

#[cfg(all(feature = "internals", feature = "threads"))]
#[allow(missing_docs)]
pub mod tests {
    use super::*;

    pub fn every_share_is_handed_out_once_and_steps_do_not_overlap() {
        let steps = if cfg!(miri) { 9 } else { 3000 };
        let turns = Turns::new((0..steps).map(|i| i % 5 + 1).collect());
        let counts: Vec<AtomicUsize> = (0..steps).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while let Some(turn) = turns.claim() {
                        let at = turn.step;
                        assert!(turn.share < turns.shares(at));
                        if at > 0 {
                            assert_eq!(counts[at - 1].load(SeqCst), turns.shares(at - 1));
                        }
                        counts[at].fetch_add(1, SeqCst);
                        turns.finish(turn);
                    }
                });
            }
        });
        assert!(turns.is_finished());
        assert!(counts.iter().enumerate().all(|(i, n)| n.load(SeqCst) == turns.shares(i)));
    }

    pub fn who_must_not_wait_is_told_so_and_later_gets_the_next_step() {
        let turns = Turns::new(vec![1, 1]);
        let Claim::Turn(first) = turns.try_claim() else { panic!("the first share is free") };
        assert_eq!(turns.try_claim(), Claim::Wait(0));
        turns.finish(first);
        assert_eq!(turns.try_claim(), Claim::Turn(Turn { step: 1, share: 0 }));
        turns.break_up();
        assert_eq!(turns.try_claim(), Claim::End);
        assert!(turns.is_broken() && !turns.is_finished());
    }

    pub fn a_share_that_never_ends_holds_nobody() {
        let turns = Turns::new(vec![1, 1]);
        let held = turns.claim();
        assert_eq!(held, Some(Turn { step: 0, share: 0 }));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.claim());
            turns.break_up();
            assert_eq!(waiting.join().unwrap(), None);
        });
        assert!(!turns.is_finished());
    }
}
