//! The device that a page asked for, with its WebGPU half if it is a GPU.

use crate::answer::Object;
use crate::gpu::{GpuHost, HostGpu};
use crate::request::Options;
use crate::wait::Pace;
use core::task::{Context, Poll};
use rlx_core::runtime::device::{Device, DeviceInfo};
use rlx_core::target::Target;
use rlx_core::{Code, Error, Result};
use rlx_cpu::{CpuDevice, CpuOptions};
use rlx_webgpu::WebGpuDevice;
use rlx_webgpu::device::Probes;
use rlx_webgpu::gpu::Gpu;
use std::sync::Arc;

/// The device, and its WebGPU half if it is a GPU.
pub(crate) struct Executor {
    pub device: Arc<dyn Device>,
    pub webgpu: Option<Arc<WebGpuDevice<HostGpu>>>,
    /// Probes of WebGPU's optional features, until they have answered.
    probes: Option<Probes>,
    pub pace: Pace,
}

/// Bytes that wasm can address, minus those of the module itself and its stack.
pub(crate) const WASM_BYTES: u64 = (4 << 30) - (64 << 20);

/// The CPU executor in wasm: the device, or the reference of a GPU's self-test.
pub(crate) fn cpu(threads: usize) -> Result<CpuDevice> {
    CpuDevice::new(CpuOptions { threads: Some(threads), clock: Some(now), ..CpuOptions::default() })
}

/// A clock in milliseconds, as a plain function.
fn now() -> f64 {
    js_sys::Date::now()
}

impl Executor {
    /// The device of `options`. `gpu` is given if it is `webgpu`.
    pub fn new(options: &Options, gpu: Option<GpuHost>) -> Result<Self> {
        match (options.device.as_str(), gpu) {
            ("webgpu", Some(host)) => {
                let gpu = HostGpu::new(host)?;
                let tuning = options.tuning(&gpu.info())?;
                let device = WebGpuDevice::new(gpu);
                let webgpu = Arc::new(match tuning {
                    Some(tuning) => device.with_tuning(tuning),
                    None => device,
                });
                Ok(Executor {
                    device: webgpu.clone(),
                    probes: Some(Probes::new(&webgpu)),
                    webgpu: Some(webgpu),
                    pace: Pace::Promises,
                })
            }
            ("webgpu", None) => {
                Err(Error::new(Code::DeviceUnavailable, "no WebGPU device was given"))
            }
            _ => {
                let device = Arc::new(cpu(options.threads)?);
                Ok(Executor { device, webgpu: None, probes: None, pace: Pace::Slices })
            }
        }
    }

    /// Waits until WebGPU's optional features have answered.
    pub fn poll_probes(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match (&mut self.probes, &self.webgpu) {
            (Some(probes), Some(webgpu)) => probes.poll(webgpu, cx),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// What an answer about an engine or a session begins with.
pub(crate) fn where_it_runs(about: &DeviceInfo, options: &Options, target: &Target) -> Object {
    Object::new()
        .with("device", &about.kind)
        .with("adapter", &about.adapter)
        .with("features", &about.features)
        .with("demoted", &about.demoted)
        .with("subgroups", &about.subgroups)
        .with("tuning", &about.tuning)
        .with("fallbackReason", &options.fallback)
        .with("target", &target.describe())
}
