//! Several devices of a plugin that run a model together: see [`Group`].
//!
//! A program of several devices is one of PJRT's, with a replica for each, and one call runs all of them. The group
//! calls every rank by itself, so that ranks meet here: each brings its arguments, and the last one to come runs the
//! program for all.

use crate::device::Pjrt;
use crate::pjrt::{Buffer, Executable};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::device::graph::GraphDevice;
use rlx_core::runtime::device::group::{Group, Together};
use rlx_core::target::Ranks;
use rlx_core::{Code, Error, Result};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

/// Opens devices of a plugin by their numbers, each once, as a group that runs a model together; the plugin is found
/// as [`open`](crate::open) finds it. The count of `ranks` is the number of devices.
///
/// ```no_run
/// use rlx_core::runtime::device::Device;
/// use rlx_core::target::Ranks;
///
/// let plugin = "target/plugins/xla_cpu_pjrt.so".as_ref();
/// let device = rlx_pjrt::group(Some(plugin), &[0, 1], Ranks::ONE)?;
/// assert_eq!(device.target().claims.ranks.count, 2);
/// # Ok::<(), rlx_core::Error>(())
/// ```
///
/// # Errors
/// `Usage` for no devices, or one that is named twice; `DeviceUnavailable` if there is no such plugin, or it has no
/// device of one of these numbers.
pub fn group(plugin: Option<&Path>, devices: &[usize], ranks: Ranks) -> Result<Group> {
    for (i, device) in devices.iter().enumerate() {
        if devices[..i].contains(device) {
            return Err(Error::usage(format!("device {device} is named twice"))
                .hint("a group has every device once, such as --devices 0,1"));
        }
    }
    let meeting = Arc::new(Meeting::new(devices));
    let ranks = Ranks { count: devices.len() as u64, ..ranks };
    let opened = Pjrt::ranks(plugin, &meeting, ranks)?;
    let device = |(pjrt, target)| -> Arc<dyn Device> { Arc::new(GraphDevice::new(pjrt, target)) };
    Group::new(opened.into_iter().map(device).collect(), meeting)
}

/// Where ranks meet. It calls them too, each on a thread of its own, because they wait for each other.
pub(crate) struct Meeting {
    /// Numbers of the plugin's devices, in the order of the ranks.
    devices: Vec<usize>,
    /// Held by a call of all ranks: another one would meet ranks of this one.
    turn: Mutex<()>,
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Programs that some rank has, by their texts.
    made: Mutex<Vec<(String, Weak<Executable>)>>,
}

struct Inner {
    ranks: Vec<Rank>,
    /// Why a rank failed in this call.
    failed: Option<Error>,
}

/// Where a rank is.
enum Rank {
    /// In none of the group's calls.
    Away,
    /// In a call, and may come to a run.
    Coming,
    Waits(Brought),
    Ran(Result<Vec<Buffer>>),
}

/// What a rank brings to a run.
pub(crate) struct Brought {
    pub executable: Arc<Executable>,
    pub arguments: Vec<Buffer>,
    /// Numbers of arguments that are not given away.
    pub kept: Vec<i64>,
}

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // No value is left half changed.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Meeting {
    pub fn new(devices: &[usize]) -> Meeting {
        let ranks = devices.iter().map(|_| Rank::Away).collect();
        Meeting {
            devices: devices.to_vec(),
            turn: Mutex::new(()),
            inner: Mutex::new(Inner { ranks, failed: None }),
            changed: Condvar::new(),
            made: Mutex::default(),
        }
    }

    /// Numbers of the plugin's devices, in the order of the ranks.
    pub fn devices(&self) -> &[usize] {
        &self.devices
    }

    /// The program of this text, which the first rank that asks for it compiles.
    pub fn compiled(
        &self,
        text: String,
        compile: impl FnOnce(&str) -> Result<Executable>,
    ) -> Result<Arc<Executable>> {
        let made = &mut *locked(&self.made);
        made.retain(|(_, executable)| executable.strong_count() > 0);
        let found = made.iter().find(|(own, _)| *own == text).and_then(|(_, e)| e.upgrade());
        if let Some(found) = found {
            return Ok(found);
        }
        let executable = Arc::new(compile(&text)?);
        made.push((text, Arc::downgrade(&executable)));
        Ok(executable)
    }

    /// Keeps the error of a rank for others that would wait for it.
    pub fn told<T>(&self, done: Result<T>) -> Result<T> {
        done.inspect_err(|e| {
            locked(&self.inner).failed.get_or_insert_with(|| e.clone());
        })
    }

    /// Runs a program once all ranks have come to it; the results of this rank.
    ///
    /// # Errors
    /// `DeviceLost` where another rank ends its call without coming; what the plugin says of the run.
    pub fn run(&self, rank: usize, brought: Brought) -> Result<Vec<Buffer>> {
        let mut inner = locked(&self.inner);
        match inner.ranks.get_mut(rank) {
            Some(own) => *own = Rank::Waits(brought),
            None => return Err(Error::internal(format!("a group has no rank {rank}"))),
        }
        if inner.ranks.iter().all(|r| matches!(r, Rank::Waits(_))) {
            inner.run();
            self.changed.notify_all();
        }
        loop {
            if matches!(inner.ranks[rank], Rank::Ran(_)) {
                match std::mem::replace(&mut inner.ranks[rank], Rank::Coming) {
                    Rank::Ran(results) => return results,
                    _ => return Err(Error::internal("a rank has lost its results")),
                }
            }
            if let Some(gone) = inner.ranks.iter().position(|r| matches!(r, Rank::Away)) {
                inner.ranks[rank] = Rank::Coming;
                let device = self.devices[gone];
                let what = match &inner.failed {
                    Some(e) => format!("another device of the group failed: {}", e.what),
                    None => format!("device {device} of the group did not come to a run"),
                };
                return Err(Error::new(Code::DeviceLost, what));
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Inner {
    /// Runs what all ranks have brought.
    fn run(&mut self) {
        let mut all = Vec::with_capacity(self.ranks.len());
        for rank in &mut self.ranks {
            if let Rank::Waits(brought) = std::mem::replace(rank, Rank::Coming) {
                all.push(brought);
            }
        }
        match run_all(&all) {
            Ok(results) => self
                .ranks
                .iter_mut()
                .zip(results)
                .for_each(|(rank, results)| *rank = Rank::Ran(Ok(results))),
            Err(e) => self.ranks.iter_mut().for_each(|rank| *rank = Rank::Ran(Err(e.clone()))),
        }
    }
}

fn run_all(all: &[Brought]) -> Result<Vec<Vec<Buffer>>> {
    let Some(first) = all.first() else { return Err(Error::internal("a run of no ranks")) };
    if !all.iter().all(|b| Arc::ptr_eq(&b.executable, &first.executable)) {
        return Err(Error::internal("ranks of a group come to different programs"));
    }
    let arguments: Vec<&[Buffer]> = all.iter().map(|b| b.arguments.as_slice()).collect();
    // What one rank keeps, none gives away: the numbers are those of all devices.
    let mut kept: Vec<i64> = all.iter().flat_map(|b| b.kept.iter().copied()).collect();
    kept.sort_unstable();
    kept.dedup();
    first.executable.run_each(&arguments, &kept)
}

impl Together for Meeting {
    fn each(&self, ranks: usize, f: &(dyn Fn(usize) + Sync)) {
        /// Ends a rank's call, even by a panic: others wait for it no longer.
        struct Leaves<'a>(&'a Meeting, usize);
        impl Drop for Leaves<'_> {
            fn drop(&mut self) {
                if let Some(rank) = locked(&self.0.inner).ranks.get_mut(self.1) {
                    *rank = Rank::Away;
                }
                self.0.changed.notify_all();
            }
        }
        let _turn = locked(&self.turn);
        {
            let inner = &mut *locked(&self.inner);
            inner.ranks.iter_mut().for_each(|rank| *rank = Rank::Coming);
            inner.failed = None;
        }
        let call = |rank| {
            let _leaves = Leaves(self, rank);
            f(rank);
        };
        thread::scope(|scope| {
            let call = &call;
            let others: Vec<_> = (1..ranks).map(|rank| scope.spawn(move || call(rank))).collect();
            if ranks > 0 {
                call(0);
            }
            for other in others {
                // A call that ended in a panic has left no result, which the group reports.
                let _ = other.join();
            }
        });
    }
}
