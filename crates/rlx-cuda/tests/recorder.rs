//! A GPU that computes nothing: it collects the texts that programs are made of.

use crate::common::TestDevice;
use rlx_core::Result;
use rlx_core::runtime::device::shared::Lock;
use rlx_cuda::CudaDevice;
use rlx_cuda::driver::cuda::texts::Texts;
use rlx_cuda::driver::{At, Driver, DriverInfo, Work};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// A kernel's function and its text.
pub type Text = (String, String);

struct Recorder {
    info: DriverInfo,
    kernels: Option<Texts>,
    texts: Arc<Mutex<BTreeSet<Text>>>,
    reads: Lock<BTreeMap<u32, u64>>,
    products: bool,
}

/// A device that has them, and where the texts come together. `products`: whether it has a library for them.
/// `arch`: what it can do, as NVIDIA numbers compute capabilities.
pub fn recorder(products: bool, arch: u32) -> (Arc<TestDevice>, Arc<Mutex<BTreeSet<Text>>>) {
    recorder_with(products, arch, None)
}

/// The same with kernels as the driver of a card finds them.
pub fn recorder_with(
    products: bool,
    arch: u32,
    kernels: Option<Texts>,
) -> (Arc<TestDevice>, Arc<Mutex<BTreeSet<Text>>>) {
    let texts = Arc::default();
    let info = DriverInfo {
        name: "recorder".into(),
        arch: String::new(),
        driver: String::new(),
        warp: 64,
        memory: 1 << 34,
        processors: 132,
        bulk_copies: arch >= 90,
        warpgroups: arch == 90,
    };
    let (reads, texts_too) = (Lock::default(), Arc::clone(&texts));
    let driver = Recorder { info, kernels, texts: texts_too, reads, products };
    (Arc::new(CudaDevice::new(Box::new(driver) as Box<dyn Driver>)), texts)
}

impl Driver for Recorder {
    fn info(&self) -> &DriverInfo {
        &self.info
    }
    fn create(&self, _: u32, _: u64) -> Result<()> {
        Ok(())
    }
    fn destroy(&self, _: u32) {}
    fn write(&self, _: At, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn copy(&self, _: At, _: At, _: u64) -> Result<()> {
        Ok(())
    }
    fn read(&self, read: u32, from: &[(At, u64)]) -> Result<()> {
        self.reads.lock().insert(read, from.iter().map(|(_, bytes)| bytes).sum());
        Ok(())
    }
    fn poll_read(&self, read: u32) -> Result<Option<Vec<u8>>> {
        Ok(self.reads.lock().remove(&read).map(|bytes| vec![0; bytes as usize]))
    }
    fn has_products(&self) -> bool {
        self.products
    }
    fn compile(&self, _: u32, source: &str, entry: &str) -> Result<()> {
        if let Some(kernels) = &self.kernels {
            kernels.text(source, entry)?;
        }
        self.texts.lock().unwrap().insert((entry.into(), source.into()));
        Ok(())
    }
    fn fills(&self) -> bool {
        self.kernels.as_ref().is_some_and(Texts::fills)
    }
    fn fill(&self, source: &str, entry: &str) -> Result<()> {
        self.kernels.as_ref().map_or(Ok(()), |kernels| kernels.fill(source, entry))
    }
    fn forget(&self, _: u32) {}
    fn record(&self, _: u32, _: &[Work]) -> Result<()> {
        Ok(())
    }
    fn submit(&self, _: u32) -> Result<()> {
        Ok(())
    }
    fn drop_list(&self, _: u32) {}
    fn submit_timed(&self, _: u32, _: &[Work]) -> Result<()> {
        Ok(())
    }
    fn poll_times(&self, _: u32) -> Result<Option<Vec<[u64; 2]>>> {
        Ok(Some(Vec::new()))
    }
}
