//! The emulator as tests open it.

pub use crate::step::*;
use rlx_cuda::CudaDevice;
use rlx_cuda::driver::Driver;
use rlx_cuda::driver::cuda::Cuda;
use rlx_cuda::driver::emulator::{Emulator, Watch};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
