//! The GPU of this machine, as tests open it.

pub mod changed;
pub mod lanes;

pub(crate) use crate::language as model;
pub use crate::step::*;
pub use crate::wide::{first_of, is_wide};
use rlx_core::target::Target;
use rlx_webgpu::WebGpuDevice;
use rlx_webgpu::gpu::native::NativeGpu;
use rlx_webgpu::gpu::{CountingGpu, Gpu, GpuInfo};
use std::sync::Arc;

pub type TestDevice = WebGpuDevice<CountingGpu<NativeGpu>>;

/// What the compiler is told of any GPU.
pub fn target() -> Target {
    rlx_webgpu::target(rlx_webgpu::DEFAULT_LIMITS)
}

/// The GPU of this machine; a machine without one fails the tests.
pub fn device() -> Arc<TestDevice> {
    let gpu = NativeGpu::new(None).expect("these tests need a WebGPU adapter");
    Arc::new(WebGpuDevice::new(CountingGpu::new(gpu)))
}

/// The same, as it would be if its GPU were another.
pub fn device_with(change: impl Fn(&mut GpuInfo)) -> Arc<TestDevice> {
    let gpu = NativeGpu::new(None).expect("these tests need a WebGPU adapter");
    let mut info = gpu.info();
    change(&mut info);
    Arc::new(WebGpuDevice::with_info(CountingGpu::new(gpu), info))
}
