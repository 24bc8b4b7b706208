//! The emulator as tests open it.

pub use crate::step::*;
use rlx_core::ops::Op;
use rlx_core::reference::{self, View};
use rlx_cuda::CudaDevice;
use rlx_cuda::driver::Driver;
use rlx_cuda::driver::cuda::Cuda;
use rlx_cuda::driver::emulator::{Emulator, Watch};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

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
    let emulator = Emulator::start(&sources(), &cache(), warp, watch);
    Arc::new(CudaDevice::new(Box::new(emulator.unwrap_or_else(|e| panic!("the emulator: {e}")))))
}

/// The emulator; where `RLX_CUDA` is set, the machine's card.
pub fn device() -> Arc<TestDevice> {
    if std::env::var_os("RLX_CUDA").is_none() {
        return emulated(32, Watch::Nothing);
    }
    let card = Cuda::new(0, None).unwrap_or_else(|e| panic!("RLX_CUDA is set: {e}"));
    Arc::new(CudaDevice::new(Box::new(card)))
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
