//! Every pool behind one trait: steps in order, each of two parts on two threads, the caller's
//! among them where the pool lets it help.

use crate::{Result, task};
use rlx_cpu::dispatch::{Team, Work};
use std::sync::Arc;

/// Threads that do a part each.
pub const THREADS: usize = 2;

/// A pool that is ready.
pub trait Pool {
    /// Does `steps` steps, each of two parts of the task.
    fn run(&mut self, steps: usize);
}

/// A pool, given the loops of a part.
pub type Make = fn(u64) -> Result<Box<dyn Pool>>;

/// Names and how they are made. The first is ours.
pub const POOLS: [(&str, Make); 6] = [
    ("rlx", rlx),
    ("rayon join", |loops| rayon(loops, false)),
    ("rayon broadcast", |loops| rayon(loops, true)),
    ("micropool join", micropool),
    ("forkunion broadcast", forkunion),
    ("std scoped threads", |loops| Ok(Box::new(Std(loops)))),
];

struct Rlx {
    team: Team,
    work: Arc<Work>,
}

impl Pool for Rlx {
    fn run(&mut self, steps: usize) {
        let done = self.team.run(steps, &self.work);
        assert!(done.is_ok(), "tasks do not panic");
    }
}

fn rlx(loops: u64) -> Result<Box<dyn Pool>> {
    Ok(Box::new(Rlx { team: Team::new(THREADS)?, work: Arc::new(move |_, _| task(loops)) }))
}

struct Rayon {
    pool: rayon::ThreadPool,
    loops: u64,
    broadcast: bool,
}

impl Pool for Rayon {
    fn run(&mut self, steps: usize) {
        let loops = self.loops;
        // All steps are inside: a worker of the pool forks, as a program's walk would.
        self.pool.install(|| {
            for _ in 0..steps {
                if self.broadcast {
                    self.pool.broadcast(|_| task(loops));
                } else {
                    rayon::join(|| task(loops), || task(loops));
                }
            }
        });
    }
}

fn rayon(loops: u64, broadcast: bool) -> Result<Box<dyn Pool>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build()?;
    Ok(Box::new(Rayon { pool, loops, broadcast }))
}

struct Micropool {
    pool: micropool::ThreadPool,
    loops: u64,
}

impl Pool for Micropool {
    fn run(&mut self, steps: usize) {
        let loops = self.loops;
        self.pool.install(|| {
            for _ in 0..steps {
                micropool::join(|| task(loops), || task(loops));
            }
        });
    }
}

fn micropool(loops: u64) -> Result<Box<dyn Pool>> {
    let pool = micropool::ThreadPoolBuilder::default().num_threads(THREADS - 1).build();
    Ok(Box::new(Micropool { pool, loops }))
}

struct Forkunion {
    pool: forkunion::ThreadPool,
    loops: u64,
}

impl Pool for Forkunion {
    fn run(&mut self, steps: usize) {
        let loops = self.loops;
        for _ in 0..steps {
            self.pool.broadcast(|_, _| task(loops));
        }
    }
}

fn forkunion(loops: u64) -> Result<Box<dyn Pool>> {
    let topology = forkunion::Topology::new().map_err(|e| format!("forkunion: {e:?}"))?;
    let pool = forkunion::ThreadPool::try_spawn(&topology, THREADS);
    Ok(Box::new(Forkunion { pool: pool.map_err(|e| format!("forkunion: {e:?}"))?, loops }))
}

/// No pool: a thread is born for every step.
struct Std(u64);

impl Pool for Std {
    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            std::thread::scope(|scope| {
                scope.spawn(|| task(self.0));
                task(self.0);
            });
        }
    }
}
