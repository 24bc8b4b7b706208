//! Worker threads that stay hot between submissions: they spin for a while, then park.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use rlx_core::{Code, Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an idle worker spins for the next submission: longer than the host needs between two
/// tokens, short enough that an idle engine costs nothing.
const HOT: Duration = Duration::from_micros(300);

/// What threads do together.
pub(crate) trait Job: Send + Sync + 'static {
    /// Does shares until there are none left.
    fn walk(&self);
    /// True once every share is done.
    fn is_finished(&self) -> bool;
    /// What it is called in an error.
    fn name(&self) -> &str;
}

struct Shared<J> {
    /// Counts runs; a worker that sees a new number takes the job.
    number: AtomicU64,
    job: Mutex<Option<Arc<J>>>,
    wake: Condvar,
    parked: AtomicUsize,
    stop: AtomicBool,
}

impl<J> Shared<J> {
    fn job(&self) -> MutexGuard<'_, Option<Arc<J>>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The workers beside the calling thread.
pub(crate) struct Pool<J> {
    shared: Arc<Shared<J>>,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Job> Pool<J> {
    /// Starts `extra` workers.
    ///
    /// # Errors
    /// `DeviceUnavailable` if the system gives no more threads.
    pub(crate) fn new(extra: usize) -> Result<Self> {
        let shared = Arc::new(Shared {
            number: AtomicU64::new(0),
            job: Mutex::new(None),
            wake: Condvar::new(),
            parked: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let mut pool = Pool { shared, threads: Vec::new() };
        for i in 0..extra {
            let shared = pool.shared.clone();
            let thread = std::thread::Builder::new()
                .name(format!("rlx-cpu-{}", i + 1))
                .spawn(move || work(&shared))
                .map_err(|e| {
                    Error::new(Code::DeviceUnavailable, format!("no thread for the CPU: {e}"))
                        .hint("ask for fewer threads")
                })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Runs to the end, on this thread and every worker that is awake.
    ///
    /// # Errors
    /// `Internal` if a kernel panicked.
    pub(crate) fn run(&self, job: Arc<J>) -> Result<()> {
        let shared = &*self.shared;
        if !self.threads.is_empty() {
            *shared.job() = Some(job.clone());
            shared.number.fetch_add(1, Ordering::SeqCst);
            // A worker that parks counts itself, under the lock, before it looks once more.
            if shared.parked.load(Ordering::SeqCst) > 0 {
                drop(shared.job());
                shared.wake.notify_all();
            }
        }
        // A panic breaks the job, so it is not finished; what it said went to stderr.
        let _ = catch_unwind(AssertUnwindSafe(|| job.walk()));
        if !self.threads.is_empty() {
            *shared.job() = None;
        }
        if job.is_finished() {
            return Ok(());
        }
        Err(Error::internal(format!("a kernel of program {} panicked", job.name())))
    }
}

impl<J> Drop for Pool<J> {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(self.shared.job());
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // A worker catches panics of kernels: it has nothing else to fail with.
            let _ = thread.join();
        }
    }
}

fn work<J: Job>(shared: &Shared<J>) {
    let mut seen = 0;
    while let Some(number) = next(shared, seen) {
        seen = number;
        let job = shared.job().clone();
        if let Some(job) = job {
            // As in `run`.
            let _ = catch_unwind(AssertUnwindSafe(|| job.walk()));
        }
    }
}

/// The number of the next run; `None` when the pool is dropped.
fn next<J>(shared: &Shared<J>, seen: u64) -> Option<u64> {
    let changed = || {
        let number = shared.number.load(Ordering::SeqCst);
        (number != seen || shared.stop.load(Ordering::SeqCst)).then_some(number)
    };
    let done = |number| (!shared.stop.load(Ordering::SeqCst)).then_some(number);
    let start = Instant::now();
    while start.elapsed() < HOT {
        for _ in 0..64 {
            if let Some(number) = changed() {
                return done(number);
            }
            core::hint::spin_loop();
        }
    }
    let mut guard = shared.job();
    shared.parked.fetch_add(1, Ordering::SeqCst);
    let number = loop {
        if let Some(number) = changed() {
            break number;
        }
        guard = shared.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
    };
    shared.parked.fetch_sub(1, Ordering::SeqCst);
    drop(guard);
    done(number)
}
