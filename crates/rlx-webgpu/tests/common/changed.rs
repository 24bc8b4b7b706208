//! A GPU whose compiler makes something else of shaders.

use rlx_core::Result;
use rlx_webgpu::gpu::native::NativeGpu;
use rlx_webgpu::gpu::{Binding, BindingKind, Command, Gpu, GpuInfo, Usage};
use std::task::{Context, Poll};

/// What becomes of a shader's text.
type Change = Box<dyn Fn(&str) -> String + Send + Sync>;

/// This machine's GPU behind such a compiler.
pub struct Changed {
    gpu: NativeGpu,
    /// What it says of itself.
    pub info: GpuInfo,
    change: Change,
}

impl Changed {
    pub fn new(gpu: NativeGpu, change: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Changed { info: gpu.info(), gpu, change: Box::new(change) }
    }
}

impl Gpu for Changed {
    fn info(&self) -> GpuInfo {
        self.info.clone()
    }
    fn is_lost(&self) -> bool {
        self.gpu.is_lost()
    }
    fn take_error(&self) -> Option<rlx_core::Error> {
        self.gpu.take_error()
    }
    fn create_buffer(&self, id: u32, size: u64, usage: Usage, label: &str) {
        self.gpu.create_buffer(id, size, usage, label);
    }
    fn destroy_buffer(&self, id: u32) {
        self.gpu.destroy_buffer(id);
    }
    fn write_buffer(&self, id: u32, offset: u64, bytes: &[u8]) {
        self.gpu.write_buffer(id, offset, bytes);
    }
    fn create_pipeline(&self, id: u32, wgsl: &str, entry: &str, bindings: &[BindingKind]) {
        self.gpu.create_pipeline(id, &(self.change)(wgsl), entry, bindings);
    }
    fn poll_pipeline(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.gpu.poll_pipeline(id, cx)
    }
    fn free_pipeline(&self, id: u32) {
        self.gpu.free_pipeline(id);
    }
    fn create_bind_group(&self, id: u32, pipeline: u32, bindings: &[Binding]) {
        self.gpu.create_bind_group(id, pipeline, bindings);
    }
    fn free_bind_group(&self, id: u32) {
        self.gpu.free_bind_group(id);
    }
    fn record(&self, list: u32, commands: &[Command]) {
        self.gpu.record(list, commands);
    }
    fn free_list(&self, list: u32) {
        self.gpu.free_list(list);
    }
    fn submit(&self, lists: &[u32]) {
        self.gpu.submit(lists);
    }
    fn submit_timed(&self, id: u32, lists: &[u32]) {
        self.gpu.submit_timed(id, lists);
    }
    fn poll_times(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<Vec<[u64; 2]>>> {
        self.gpu.poll_times(id, cx)
    }
    fn read(&self, id: u32, buffer: u32, bytes: u64) {
        self.gpu.read(id, buffer, bytes);
    }
    fn poll_read(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>>> {
        self.gpu.poll_read(id, cx)
    }
    fn fence(&self, id: u32) {
        self.gpu.fence(id);
    }
    fn poll_fence(&self, id: u32, cx: &mut Context<'_>) -> Poll<()> {
        self.gpu.poll_fence(id, cx)
    }
    fn push_scopes(&self) {
        self.gpu.push_scopes();
    }
    fn pop_scopes(&self, id: u32) {
        self.gpu.pop_scopes(id);
    }
    fn poll_scopes(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.gpu.poll_scopes(id, cx)
    }
}
