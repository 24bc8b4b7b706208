//! Web workers that share the module's memory and walk runs along with the page.
//!
//! Wasm starts no threads, and a page's own thread must not wait. So JavaScript starts the
//! workers, each of which calls [`join`] and stays there; the page [`offer`]s them a run and walks
//! it itself, in slices, as it does alone. The workers belong to the module: they outlive devices,
//! and a device that asked for fewer threads has fewer seats.

use crate::run::Run;
use crate::turns::lock;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Looks of an idle worker before it parks: the time between two tokens, and some.
const LOOKS: u32 = 20_000;

struct Job {
    run: Arc<Run>,
    /// Workers that may still join it.
    seats: usize,
}

/// Counts offers; a worker that sees a new number looks for a seat.
static NUMBER: AtomicU64 = AtomicU64::new(0);
static JOB: Mutex<Option<Job>> = Mutex::new(None);
static WAKE: Condvar = Condvar::new();
static PARKED: AtomicUsize = AtomicUsize::new(0);

/// Lets up to `seats` workers walk `run` along. It takes the place of an earlier offer, whose
/// page then ends it alone.
pub(crate) fn offer(run: &Arc<Run>, seats: usize) {
    *lock(&JOB) = Some(Job { run: run.clone(), seats });
    NUMBER.fetch_add(1, SeqCst);
    // A worker that parks counts itself, under the lock, before it looks once more.
    if PARKED.load(SeqCst) > 0 {
        drop(lock(&JOB));
        WAKE.notify_all();
    }
}

/// Takes the offer of `run` back, if it stands.
pub(crate) fn withdraw(run: &Arc<Run>) {
    lock(&JOB).take_if(|job| Arc::ptr_eq(&job.run, run));
}

/// Makes this thread one of the pool's: it walks what is offered and never returns. To be called
/// by a worker, not by the page, since it waits. Its run never ends if it traps: JavaScript then ends all that
/// share this memory.
pub fn join() {
    let mut seen = 0;
    loop {
        seen = next(seen);
        let run = lock(&JOB).as_mut().and_then(|job| {
            job.seats = job.seats.checked_sub(1)?;
            Some(job.run.clone())
        });
        if let Some(run) = run {
            run.walk();
        }
    }
}

/// The number of the next offer.
fn next(seen: u64) -> u64 {
    let changed = || Some(NUMBER.load(SeqCst)).filter(|&number| number != seen);
    for _ in 0..LOOKS {
        if let Some(number) = changed() {
            return number;
        }
        core::hint::spin_loop();
    }
    let mut guard = lock(&JOB);
    PARKED.fetch_add(1, SeqCst);
    let number = loop {
        if let Some(number) = changed() {
            break number;
        }
        guard = WAKE.wait(guard).unwrap_or_else(PoisonError::into_inner);
    };
    PARKED.fetch_sub(1, SeqCst);
    drop(guard);
    number
}
