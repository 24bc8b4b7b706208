//! The Metal executor: that of `rlx-webgpu`, over a GPU of Apple's by Metal's own calls.
//!
//! A step of a program becomes WGSL there, and MSL here: by naga ([`msl`]), or as a text of our own where the kernel
//! decides how fast a model is. [`gpu::MetalGpu`] is the host that `rlx-webgpu` asks, and speaks to Metal through the
//! small trait [`api::Metal`]. On Apple's systems `metal` implements it; tests implement it everywhere, check each
//! call, and run the kernels as C++.

pub mod api;
mod choose;
pub mod gpu;
mod kernels;
#[cfg(target_vendor = "apple")]
#[allow(unsafe_code)]
pub mod metal;
pub mod msl;
pub mod tensors;

use api::Metal;
use gpu::MetalGpu;
use rlx_core::Result;
use rlx_core::runtime::device::Device;
use rlx_core::target::{Activations, Limits, Policy, ProgramActivations, Target};
use rlx_core::types::DType;
#[cfg(not(target_vendor = "apple"))]
use rlx_core::{Code, Error};
use rlx_webgpu::gpu::Gpu;
use rlx_webgpu::{Tuning, WebGpuDevice};
use std::sync::Arc;

/// The executor over a GPU.
pub type MetalDevice<M> = WebGpuDevice<MetalGpu<M>>;

/// The executor's name.
const NAME: &str = "metal";

/// How a model is run here. Apple's GPUs have no product of packed bytes, so that activations stay f32.
const POLICY: Policy = Policy {
    chunk: 512,
    short: Some(64),
    kv: DType::F16,
    activations: ProgramActivations { decode: Activations::F32, prompts: Activations::F32 },
    paced: true,
    checked: true,
};

/// The executor over a host.
pub fn device<M: Metal>(gpu: MetalGpu<M>) -> MetalDevice<M> {
    WebGpuDevice::new(gpu).called(NAME, POLICY)
}

/// The same with products of many rows in 16-bit floats, whose sums are f32: those of any network, whatever its weights
/// are, so that it must be asked for.
pub fn device_in_halves<M: Metal>(gpu: MetalGpu<M>) -> MetalDevice<M> {
    let tuning = Tuning::usual(gpu.info().wgsl).in_halves();
    device(gpu).with_tuning(tuning)
}

/// The executor over a GPU of this machine: the one whose name contains `name`, or the system's default.
///
/// # Errors
/// `DeviceUnavailable` where there is no such GPU, and on every machine that is no Mac.
pub fn open(name: Option<&str>) -> Result<Arc<dyn Device>> {
    #[cfg(target_vendor = "apple")]
    return Ok(Arc::new(device(MetalGpu::new(metal::SystemMetal::new(name)?))));
    #[cfg(not(target_vendor = "apple"))]
    {
        let _ = name;
        Err(Error::new(Code::DeviceUnavailable, "Metal is Apple's"))
    }
}

/// What programs are planned for where no device is opened.
pub fn target() -> Target {
    let limits = Limits { buffer: 1 << 32, binding: 1 << 32, storage_buffers: 29, alignment: 256 };
    Target { name: NAME.into(), policy: POLICY, ..rlx_webgpu::target(limits) }
}
