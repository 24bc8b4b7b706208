//! The emulator as tests open it.

use crate::nvrtc::{checked, nvrtc};
pub use crate::step::*;
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::reference::{self, View};
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, DType};
use rlx_cuda::CudaDevice;
use rlx_cuda::driver::cuda::Cuda;
use rlx_cuda::driver::cuda::texts::Folders;
use rlx_cuda::driver::emulator::{Emulator, Watch};
use rlx_cuda::driver::{At, Driver, DriverInfo, Floats, Work};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// The sources of the emulator.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/emulator")
}

/// Where compiled kernels are kept from one run to the next.
pub fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulator")
}

/// A device of these tests: emulated, or a real one.
pub type TestDevice = CudaDevice<Box<dyn Driver>>;

/// An emulated GPU with warps of so many lanes.
pub fn emulated(warp: u32, watch: Watch) -> Arc<TestDevice> {
    Arc::new(CudaDevice::new(emulator(warp, watch)))
}

/// The emulator with warps of 32 lanes and something watched; where `RLX_CUDA` is set, the machine's card.
pub fn emulated_or_card(watch: Watch) -> Arc<TestDevice> {
    if std::env::var_os("RLX_CUDA").is_none() { emulated(32, watch) } else { plain_device() }
}

fn emulator(warp: u32, watch: Watch) -> Box<dyn Driver> {
    let emulator = Emulator::start(&sources(), &cache(), warp, watch);
    let emulator = Box::new(emulator.unwrap_or_else(|e| panic!("the emulator: {e}")));
    if wants_nvrtc() {
        Box::new(Watched { driver: emulator, rows: Arc::default() })
    } else {
        emulator
    }
}

/// Whether NVIDIA's compiler has to take every text that the emulator runs.
fn wants_nvrtc() -> bool {
    std::env::var("RLX_NVRTC").is_ok_and(|which| which == "all")
}

/// The emulator, or where `RLX_CUDA` is set, the machine's card.
pub fn driver() -> Box<dyn Driver> {
    if std::env::var_os("RLX_CUDA").is_none() {
        let warp = std::env::var("RLX_WARP").map_or(32, |lanes| lanes.parse().expect("RLX_WARP"));
        return emulator(warp, Watch::Nothing);
    }
    Box::new(Cuda::new(0, Folders::default()).unwrap_or_else(|e| panic!("RLX_CUDA is set: {e}")))
}

/// The emulator, with warps of `RLX_WARP` lanes; where `RLX_CUDA` is set, the machine's card.
pub fn device() -> Arc<TestDevice> {
    Arc::new(CudaDevice::new(driver()))
}

/// What the executor's kernels take.
pub fn target() -> Target {
    rlx_cuda::target()
}

/// A driver that notes how many rows the products have that are recorded, and has NVIDIA's compiler look at kernels if
/// that is asked for.
struct Watched {
    driver: Box<dyn Driver>,
    rows: Arc<Mutex<Vec<u32>>>,
}

impl Driver for Watched {
    fn info(&self) -> &DriverInfo {
        self.driver.info()
    }
    fn create(&self, buffer: u32, bytes: u64) -> Result<()> {
        self.driver.create(buffer, bytes)
    }
    fn destroy(&self, buffer: u32) {
        self.driver.destroy(buffer);
    }
    fn write(&self, at: At, bytes: &[u8]) -> Result<()> {
        self.driver.write(at, bytes)
    }
    fn copy(&self, from: At, to: At, bytes: u64) -> Result<()> {
        self.driver.copy(from, to, bytes)
    }
    fn read(&self, read: u32, from: &[(At, u64)]) -> Result<()> {
        self.driver.read(read, from)
    }
    fn poll_read(&self, read: u32) -> Result<Option<Vec<u8>>> {
        self.driver.poll_read(read)
    }
    fn has_products(&self) -> bool {
        self.driver.has_products()
    }
    fn multiplies(&self, floats: Floats) -> bool {
        self.driver.multiplies(floats)
    }
    fn compile(&self, function: u32, source: &str, entry: &str) -> Result<()> {
        if wants_nvrtc() {
            nvrtc().unwrap_or_else(|why| panic!("RLX_NVRTC is set: {why}"));
            checked(90, source, entry);
        }
        self.driver.compile(function, source, entry)
    }
    fn forget(&self, function: u32) {
        self.driver.forget(function);
    }
    fn record(&self, list: u32, work: &[Work]) -> Result<()> {
        self.rows.lock().unwrap().extend(work.iter().filter_map(|w| match w {
            Work::Product(p) => Some(p.rows),
            Work::Launch(_) | Work::Exchange(_) => None,
        }));
        self.driver.record(list, work)
    }
    fn submit(&self, list: u32) -> Result<()> {
        self.driver.submit(list)
    }
    fn drop_list(&self, list: u32) {
        self.driver.drop_list(list);
    }
    fn submit_timed(&self, times: u32, work: &[Work]) -> Result<()> {
        self.driver.submit_timed(times, work)
    }
    fn poll_times(&self, times: u32) -> Result<Option<Vec<[u64; 2]>>> {
        self.driver.poll_times(times)
    }
}

/// The device of [`device`], and the rows of the products that it records.
pub fn watched() -> (Arc<TestDevice>, Arc<Mutex<Vec<u32>>>) {
    let rows = Arc::default();
    let driver = Watched { driver: driver(), rows: Arc::clone(&rows) };
    (Arc::new(CudaDevice::new(Box::new(driver))), rows)
}

/// Types of caches that tests try.
pub const CACHES: [DType; 3] = [DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0)];

/// How far a function may be off where its value is nearly zero.
pub const NEAR_ZERO: f64 = 1e-7;

/// Devices that sum in different ways: warps of 64 lanes have no tensor cores that these texts use.
pub fn devices() -> Vec<Arc<TestDevice>> {
    vec![plain_device(), emulated(64, Watch::Nothing)]
}

/// One device for all tests of operators.
pub fn plain_device() -> Arc<TestDevice> {
    static DEVICE: OnceLock<Arc<TestDevice>> = OnceLock::new();
    DEVICE.get_or_init(device).clone()
}

pub fn truth(op: &Op, operands: &[Operand]) -> Vec<Vec<u8>> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    reference::run(op, &views).expect("the reference runs this")
}

pub fn f64s(bytes: &[u8]) -> Vec<f64> {
    floats(bytes).iter().map(|&x| f64::from(x)).collect()
}

/// The operator's first result, as the reference has it.
#[track_caller]
pub fn agrees(op: impl Into<Op>, operands: &[Operand], tolerance: f64) {
    agrees_on(&plain_device(), op, operands, tolerance);
}

#[track_caller]
pub fn agrees_on(d: &Arc<TestDevice>, op: impl Into<Op>, operands: &[Operand], tolerance: f64) {
    let op = op.into();
    let types: Vec<String> = operands.iter().map(|o| o.ty.to_string()).collect();
    let what = format!("{} of {}", op.name(), types.join(", "));
    let want = truth(&op, operands);
    let got = run_op(d, op, operands);
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(&want) {
        assert_close(&what, &floats(got), &f64s(want), tolerance);
    }
}
