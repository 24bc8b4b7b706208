//! Counts a GPU's work from outside: tests compare it with what the executor says of itself, and let
//! it run out of memory.

use super::{Binding, BindingKind, Command, Form, Gpu, GpuInfo, Usage};
use core::task::{Context, Poll};
use rlx_core::runtime::device::shared::Lock;
use rlx_core::{Code, Error, Result};
use std::collections::BTreeMap;

/// What a [`CountingGpu`] saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kernel launches of submitted lists.
    pub dispatches: u64,
    /// Queue submissions.
    pub submits: u64,
    /// Bytes that were mapped for reading.
    pub mapped_bytes: u64,
    /// Bytes of buffers created and not destroyed.
    pub live_bytes: u64,
    /// Buffers created since the start.
    pub buffers: u64,
    /// Bind groups made and not freed.
    pub bind_groups: u64,
    /// Lists recorded and not freed.
    pub lists: u64,
    /// Pipelines compiled.
    pub pipelines: u64,
    /// Most bytes written and not yet known done.
    pub staged_bytes_max: u64,
}

#[derive(Default)]
struct Seen {
    counts: Counts,
    buffers: BTreeMap<u32, u64>,
    dispatches: BTreeMap<u32, u64>,
    staged: u64,
    fences: BTreeMap<u32, u64>,
    /// The buffer, counted since the start, that there is no memory for.
    refuse: Option<u64>,
    /// Whether scopes are open, and what they have caught.
    open: bool,
    caught: Option<Error>,
    /// Of closed scopes; of no scope.
    refused: BTreeMap<u32, Error>,
    uncaught: Option<Error>,
}

impl Seen {
    fn submitted(&mut self, lists: &[u32]) {
        self.counts.submits += 1;
        self.counts.dispatches += lists.iter().filter_map(|l| self.dispatches.get(l)).sum::<u64>();
    }
}

/// A GPU that counts what another one is asked to do.
pub struct CountingGpu<G> {
    inner: G,
    seen: Lock<Seen>,
}

impl<G: Gpu> CountingGpu<G> {
    /// Counts from zero.
    pub fn new(inner: G) -> Self {
        Self { inner, seen: Lock::default() }
    }

    /// The GPU whose work is counted.
    pub fn inner(&self) -> &G {
        &self.inner
    }

    /// Lets the GPU run out of memory at the `n`th buffer from now, the next being 0. As on a real
    /// one the buffer is there, and an error says that it is not to be used.
    pub fn refuse_buffer(&self, n: u64) {
        let mut seen = self.seen.lock();
        seen.refuse = Some(seen.counts.buffers + n);
    }

    /// What was seen so far.
    pub fn counts(&self) -> Counts {
        self.seen.lock().counts
    }
}

impl<G: Gpu> Gpu for CountingGpu<G> {
    fn info(&self) -> GpuInfo {
        self.inner.info()
    }

    fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    fn take_error(&self) -> Option<Error> {
        let uncaught = self.seen.lock().uncaught.take();
        uncaught.or_else(|| self.inner.take_error())
    }

    fn create_buffer(&self, id: u32, size: u64, usage: Usage, label: &str) {
        let mut seen = self.seen.lock();
        if seen.refuse == Some(seen.counts.buffers) {
            let error = Error::new(Code::OutOfMemory, format!("no memory for {label}"));
            let slot = if seen.open { &mut seen.caught } else { &mut seen.uncaught };
            slot.get_or_insert(error);
        }
        seen.counts.buffers += 1;
        seen.counts.live_bytes += size;
        seen.buffers.insert(id, size);
        self.inner.create_buffer(id, size, usage, label);
    }

    fn destroy_buffer(&self, id: u32) {
        let mut seen = self.seen.lock();
        seen.counts.live_bytes -= seen.buffers.remove(&id).unwrap_or(0);
        self.inner.destroy_buffer(id);
    }

    fn write_buffer(&self, id: u32, offset: u64, bytes: &[u8]) {
        let mut seen = self.seen.lock();
        seen.staged += bytes.len() as u64;
        seen.counts.staged_bytes_max = seen.counts.staged_bytes_max.max(seen.staged);
        self.inner.write_buffer(id, offset, bytes);
    }

    fn create_pipeline(&self, id: u32, wgsl: &str, entry: &str, bindings: &[BindingKind]) {
        self.seen.lock().counts.pipelines += 1;
        self.inner.create_pipeline(id, wgsl, entry, bindings);
    }

    fn create_pipeline_of(
        &self,
        id: u32,
        wgsl: &str,
        entry: &str,
        bindings: &[BindingKind],
        form: &Form,
    ) {
        self.seen.lock().counts.pipelines += 1;
        self.inner.create_pipeline_of(id, wgsl, entry, bindings, form);
    }

    fn poll_pipeline(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.inner.poll_pipeline(id, cx)
    }

    fn free_pipeline(&self, id: u32) {
        self.inner.free_pipeline(id);
    }

    fn create_bind_group(&self, id: u32, pipeline: u32, bindings: &[Binding]) {
        self.seen.lock().counts.bind_groups += 1;
        self.inner.create_bind_group(id, pipeline, bindings);
    }

    fn free_bind_group(&self, id: u32) {
        self.seen.lock().counts.bind_groups -= 1;
        self.inner.free_bind_group(id);
    }

    fn record(&self, list: u32, commands: &[Command]) {
        let n = commands.iter().filter(|c| matches!(c, Command::Dispatch { .. })).count();
        let mut seen = self.seen.lock();
        seen.dispatches.insert(list, n as u64);
        seen.counts.lists = seen.dispatches.len() as u64;
        self.inner.record(list, commands);
    }

    fn free_list(&self, list: u32) {
        let mut seen = self.seen.lock();
        seen.dispatches.remove(&list);
        seen.counts.lists = seen.dispatches.len() as u64;
        self.inner.free_list(list);
    }

    fn submit(&self, lists: &[u32]) {
        self.seen.lock().submitted(lists);
        self.inner.submit(lists);
    }

    fn submit_timed(&self, id: u32, lists: &[u32]) {
        self.seen.lock().submitted(lists);
        self.inner.submit_timed(id, lists);
    }

    fn poll_times(&self, id: u32, cx: &mut Context<'_>) -> Poll<rlx_core::Result<Vec<[u64; 2]>>> {
        self.inner.poll_times(id, cx)
    }

    fn read(&self, id: u32, buffer: u32, bytes: u64) {
        self.seen.lock().counts.mapped_bytes += bytes;
        self.inner.read(id, buffer, bytes);
    }

    fn poll_read(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>>> {
        self.inner.poll_read(id, cx)
    }

    fn fence(&self, id: u32) {
        let mut seen = self.seen.lock();
        let earlier: u64 = seen.fences.values().sum();
        let staged = seen.staged - earlier;
        seen.fences.insert(id, staged);
        self.inner.fence(id);
    }

    fn poll_fence(&self, id: u32, cx: &mut Context<'_>) -> Poll<()> {
        let answer = self.inner.poll_fence(id, cx);
        if answer.is_ready() {
            let mut seen = self.seen.lock();
            seen.staged -= seen.fences.remove(&id).unwrap_or(0);
        }
        answer
    }

    fn push_scopes(&self) {
        self.seen.lock().open = true;
        self.inner.push_scopes();
    }

    fn pop_scopes(&self, id: u32) {
        let mut seen = self.seen.lock();
        seen.open = false;
        if let Some(error) = seen.caught.take() {
            seen.refused.insert(id, error);
        }
        self.inner.pop_scopes(id);
    }

    fn poll_scopes(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let answer = self.inner.poll_scopes(id, cx);
        let refused = answer.is_ready().then(|| self.seen.lock().refused.remove(&id));
        refused.flatten().map_or(answer, |error| Poll::Ready(Err(error)))
    }
}
