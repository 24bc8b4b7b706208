//! The executor as tests open it.

use crate::emulator::Watch;
use crate::fake::Fake;
pub use crate::step::*;
use rlx_core::ops::Op;
use rlx_core::reference::{self, View};
#[cfg(feature = "wide")]
use rlx_core::target::Target;
use rlx_metal::MetalDevice;
use rlx_metal::gpu::MetalGpu;
use std::sync::Arc;

pub type TestDevice = MetalDevice<Fake>;

/// The executor over a Metal that checks its calls.
pub fn device() -> Arc<TestDevice> {
    watched(Watch::Nothing)
}

/// The same whose kernels are watched.
pub fn watched(watch: Watch) -> Arc<TestDevice> {
    Arc::new(rlx_metal::device(MetalGpu::new(Fake::new(watch))))
}

/// The same with products in halves, which ours are.
pub fn in_halves(watch: Watch) -> Arc<TestDevice> {
    Arc::new(rlx_metal::device_in_halves(MetalGpu::new(Fake::new(watch))))
}

/// A GPU with tensor operations, with products in halves or not.
pub fn with_tensors(watch: Watch, halves: bool) -> Arc<TestDevice> {
    let gpu = MetalGpu::new(Fake::new(watch).with_tensors(true));
    Arc::new(if halves { rlx_metal::device_in_halves(gpu) } else { rlx_metal::device(gpu) })
}

/// The same with WGSL's kernels alone.
pub fn translated() -> Arc<TestDevice> {
    let gpu = MetalGpu::new(Fake::new(Watch::Nothing)).without_own_kernels();
    Arc::new(rlx_metal::device_in_halves(gpu))
}

/// The same with products of f32.
#[cfg(feature = "wide")]
pub fn without_own_kernels() -> Arc<TestDevice> {
    let gpu = MetalGpu::new(Fake::new(Watch::Nothing)).without_own_kernels();
    Arc::new(rlx_metal::device(gpu))
}

/// What the executor's kernels take.
#[cfg(feature = "wide")]
pub fn target() -> Target {
    rlx_metal::target()
}

pub fn truth(op: &Op, operands: &[Operand]) -> Vec<Vec<u8>> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    reference::run(op, &views).expect("the reference runs this")
}
