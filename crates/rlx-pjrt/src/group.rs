//! Several devices of a plugin that run a model together: see [`Group`].
//!
//! A program of several devices is one of PJRT's, with a replica for each, and one call runs all of them. The group
//! calls every rank by itself, so that ranks meet here: each brings its arguments, and the last one to come runs the
//! program for all.

use crate::device::Pjrt;
use crate::meeting::{Meeting, locked};
use crate::pjrt::{Buffer, Executable};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::device::graph::GraphDevice;
use rlx_core::runtime::device::group::{Group, Together};
use rlx_core::target::Ranks;
use rlx_core::{Error, Result};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

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
    if devices.is_empty() {
        return Err(Error::usage("a group of no devices"));
    }
    let together = Arc::new(Devices::new(devices));
    let ranks = Ranks { count: devices.len() as u64, ..ranks };
    let opened = Pjrt::ranks(plugin, &together, ranks)?;
    let device = |(pjrt, target)| -> Arc<dyn Device> { Arc::new(GraphDevice::new(pjrt, target)) };
    Group::new(opened.into_iter().map(device).collect(), together)
}

/// The devices of a group.
pub(crate) struct Devices {
    /// Numbers of the plugin's devices, in the order of the ranks.
    pub numbers: Vec<usize>,
    /// Where they meet for a run.
    pub meeting: Meeting<Brought, Vec<Buffer>>,
    /// Programs that some rank has, by their texts.
    made: Mutex<Vec<(String, Weak<Executable>)>>,
}

/// What a rank brings to a run.
pub(crate) struct Brought {
    pub executable: Arc<Executable>,
    pub arguments: Vec<Buffer>,
    /// Numbers of arguments that are not given away.
    pub kept: Vec<i64>,
}

impl Devices {
    fn new(numbers: &[usize]) -> Devices {
        let meeting = Meeting::new(numbers.len());
        Devices { numbers: numbers.to_vec(), meeting, made: Mutex::default() }
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

    /// Runs a program once all ranks have come to it; the results of this rank.
    ///
    /// # Errors
    /// `DeviceLost` where another rank ends its call without coming; what the plugin says of the run.
    pub fn run(&self, rank: usize, brought: Brought) -> Result<Vec<Buffer>> {
        self.meeting.meet(rank, brought, run_all)
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

impl Together for Devices {
    fn each(&self, ranks: usize, f: &(dyn Fn(usize) + Sync)) {
        self.meeting.each(ranks, f);
    }
}
