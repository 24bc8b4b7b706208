//! Several cards of one host that run a model together: see [`Group`].

use crate::CudaDevice;
use crate::driver::Driver;
use crate::driver::met::{Hall, Met};
use rlx_core::Result;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::device::group::{Group, Together};
use rlx_core::target::{Ranks, Target};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A thread for every rank, because ranks wait for each other: the first on the caller's own.
pub struct Threads;

impl Together for Threads {
    fn each(&self, ranks: usize, f: &(dyn Fn(usize) + Sync)) {
        thread::scope(|scope| {
            let others: Vec<_> = (1..ranks).map(|rank| scope.spawn(move || f(rank))).collect();
            if ranks > 0 {
                f(0);
            }
            for other in others {
                // A call that ended in a panic has left no result, which the group reports.
                let _ = other.join();
            }
        });
    }
}

/// A group of drivers that exchange tensors themselves, for what is compiled for `target`.
///
/// # Errors
/// As [`Group::new`].
pub fn group<D: Driver + 'static>(drivers: Vec<D>, target: &Target) -> Result<Group> {
    let ranks = Ranks { count: drivers.len() as u64, ..target.claims.ranks };
    let target = target.clone().with_ranks(ranks);
    let device =
        |driver| -> Arc<dyn Device> { Arc::new(CudaDevice::with_target(driver, target.clone())) };
    Group::new(drivers.into_iter().map(device).collect(), Arc::new(Threads))
}

/// A group of drivers without exchanges of their own: tensors pass through the host, which is slow, and needs nothing
/// of the cards. A rank that waits for another one longer than `patience` gives up.
///
/// # Errors
/// As [`Group::new`].
pub fn group_by_host<D: Driver + 'static>(
    drivers: Vec<D>,
    target: &Target,
    patience: Duration,
) -> Result<Group> {
    let hall = Arc::new(Hall::new(drivers.len(), patience));
    let met = (0..).zip(drivers).map(|(rank, driver)| Met::new(driver, rank, hall.clone()));
    group(met.collect(), target)
}
