//! The host of `rlx-webgpu` over Metal's calls: the same everywhere, above the trait [`Metal`].
//!
//! A submission is one command buffer. A write by the processor goes straight into the buffer while no submission
//! under way names it, which is how weights arrive; otherwise into a buffer of its own, which the next submission
//! copies from before all else.

mod encode;
mod tables;

use crate::api::Metal;
use crate::choose::{self, Text};
use crate::tensors::Tensors;
use core::task::{Context, Poll};
use core::time::Duration;
use rlx_core::runtime::device::shared::Lock;
use rlx_core::{Code, Error, Result};
use rlx_webgpu::gpu::{Binding, BindingKind, Command, Form, Gpu, GpuInfo, Usage, Wgsl, Width};
use tables::{Buffer, Pipeline, Tables};

/// The longest a poll blocks before it answers `Pending`.
const SLICE: Duration = Duration::from_millis(50);
/// Buffers of a kernel: Metal binds 31, of which step constants and sizes are two.
const STORAGE_BUFFERS: u32 = 29;
/// Lanes of a SIMD group of every GPU of Apple's.
pub const LANES: u32 = 32;

/// Characters of a compiler's message that are told.
const MESSAGE: usize = 400;

/// A [`Gpu`] over Metal.
pub struct MetalGpu<M: Metal> {
    metal: M,
    /// Whether kernels of our own stand in for WGSL's where there are some.
    own: bool,
    /// Why tensor operations are not used although the GPU has units for them.
    refused: Lock<Option<String>>,
    tables: Lock<Tables<M>>,
}

fn gone() -> Error {
    Error::new(Code::DeviceLost, "the GPU went away")
}

fn no_memory(bytes: u64, label: &str) -> Error {
    Error::new(Code::OutOfMemory, format!("the GPU has no {bytes} bytes for {label}"))
        .hint("use a smaller model or context, or another device")
}

impl<M: Metal> MetalGpu<M> {
    /// A host over a GPU.
    pub fn new(metal: M) -> Self {
        let refused = match &metal.info().tensors {
            Tensors::Refused(why) => Some(why.clone()),
            Tensors::None | Tensors::Used => None,
        };
        MetalGpu { metal, own: true, refused: Lock::new(refused), tables: Lock::default() }
    }

    /// The same with WGSL's kernels alone.
    #[must_use]
    pub fn without_own_kernels(self) -> Self {
        MetalGpu { own: false, ..self }
    }

    /// Metal's calls.
    pub fn metal(&self) -> &M {
        &self.metal
    }

    fn make_pipeline(&self, text: Result<Text>, bindings: usize) -> Result<Pipeline<M>> {
        let text = text?;
        let memory = &text.memory;
        let bytes = memory.iter().try_fold(0u32, |sum, n| sum.checked_add(*n));
        let most = self.metal.info().threadgroup_memory;
        if bytes.is_none_or(|bytes| bytes > most) {
            let what = format!("it needs {memory:?} bytes of a threadgroup's memory, of {most}");
            return Err(Error::new(Code::Unsupported, what));
        }
        let state = self.metal.pipeline(&text)?;
        let Text { threads, memory, sizes, .. } = text;
        Ok(Pipeline { state, threads, memory, sizes, bindings })
    }

    /// Whether kernels use tensor operations.
    fn has_tensors(&self) -> bool {
        self.own && self.metal.info().tensors == Tensors::Used && self.refused.lock().is_none()
    }

    /// The pipeline of a form by tensor operations. Where Metal does not take the text, no other one is tried, as each
    /// would cost a compilation.
    fn by_tensors(&self, form: &Form, bindings: usize) -> Option<Pipeline<M>> {
        let text = if self.has_tensors() { crate::kernels::with_tensors(form) } else { None }?;
        let entry = text.entry.clone();
        match self.make_pipeline(Ok(text), bindings) {
            Ok(made) => Some(made),
            Err(error) => {
                // One line: a compiler's message has many.
                let why = error.what.split_whitespace().collect::<Vec<_>>().join(" ");
                let why = why.chars().take(MESSAGE).collect::<String>();
                self.refused.set(Some(format!("kernel {entry}: {why}")));
                None
            }
        }
    }

    fn add_pipeline(&self, id: u32, made: Result<Pipeline<M>>, entry: &str) {
        let made = made.map_err(|e| e.at(format!("kernel {entry}")));
        let tables = &mut *self.tables.lock();
        // A text that is refused is a fault of the scopes around it, too, as it is of wgpu's.
        if let Err(error) = &made {
            tables.report(error.clone());
        }
        tables.pipelines.insert(id, made);
    }
}

impl<M: Metal> Gpu for MetalGpu<M> {
    fn info(&self) -> GpuInfo {
        let info = self.metal.info();
        GpuInfo {
            adapter: info.name.clone(),
            driver: info.system.clone(),
            features: vec!["subgroups".into()],
            max_buffer: info.max_buffer,
            max_binding: info.max_buffer,
            max_storage_buffers: STORAGE_BUFFERS,
            wgsl: Wgsl {
                // MSL has no such product: naga multiplies byte by byte.
                packed_dot: false,
                subgroup: Some(LANES),
                enable_subgroups: false,
                f16: true,
            },
            width: Width::Fixed(LANES),
            software: false,
            timestamps: true,
        }
    }

    fn extras(&self) -> Vec<String> {
        if self.has_tensors() { vec![crate::tensors::NAME.into()] } else { Vec::new() }
    }

    fn unused(&self) -> Vec<String> {
        let why = self.refused.lock();
        why.iter().map(|why| format!("{}: {why}", crate::tensors::NAME)).collect()
    }

    fn is_lost(&self) -> bool {
        self.tables.lock().lost
    }

    fn take_error(&self) -> Option<Error> {
        self.tables.lock().uncaught.take()
    }

    fn create_buffer(&self, id: u32, size: u64, usage: Usage, label: &str) {
        let mut tables = self.tables.lock();
        let fits = tables.bytes.checked_add(size).is_some_and(|n| n <= self.metal.info().memory);
        let made = if fits { self.metal.buffer(size, label) } else { None };
        let Some(buffer) = made else { return tables.report(no_memory(size, label)) };
        // What submissions name again and again.
        let resident = usage != Usage::Readback;
        if resident {
            self.metal.keep_resident(&buffer, true);
        }
        tables.bytes += size;
        tables.buffers.insert(id, Buffer { buffer, bytes: size, resident, used: 0 });
    }

    fn destroy_buffer(&self, id: u32) {
        let mut tables = self.tables.lock();
        tables.reads.retain(|_, read| read.buffer != id);
        tables.writes.retain(|write| write.to != id);
        // Command buffers under way keep it alive until they have ended.
        if let Some(gone) = tables.buffers.remove(&id) {
            tables.bytes -= gone.bytes;
            if gone.resident {
                self.metal.keep_resident(&gone.buffer, false);
            }
        }
    }

    fn write_buffer(&self, id: u32, offset: u64, bytes: &[u8]) {
        let tables = &mut *self.tables.lock();
        self.look(tables);
        let Some(to) = tables.buffers.get(&id) else { return tables.unknown("buffer", id) };
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > to.bytes)
            || !offset.is_multiple_of(4)
            || !bytes.len().is_multiple_of(4)
        {
            let what = format!("a write of {} bytes at {offset} of {}", bytes.len(), to.bytes);
            return tables.report(Error::internal(what));
        }
        let waits = to.used > tables.ended || tables.writes.iter().any(|w| w.to == id);
        if !waits {
            self.metal.write(&to.buffer, offset, bytes);
            return;
        }
        match self.metal.buffer(bytes.len() as u64, "staging") {
            Some(from) => {
                self.metal.write(&from, 0, bytes);
                let bytes = bytes.len() as u64;
                tables.writes.push(tables::Write { from, to: id, offset, bytes });
            }
            None => tables.report(no_memory(bytes.len() as u64, "a write")),
        }
    }

    fn create_pipeline(&self, id: u32, wgsl: &str, entry: &str, bindings: &[BindingKind]) {
        let made = self.make_pipeline(choose::naga(wgsl, entry, bindings.len()), bindings.len());
        self.add_pipeline(id, made, entry);
    }

    fn create_pipeline_of(
        &self,
        id: u32,
        wgsl: &str,
        entry: &str,
        bindings: &[BindingKind],
        form: &Form,
    ) {
        let made = self.by_tensors(form, bindings.len()).map_or_else(
            || {
                let own = if self.own { crate::kernels::text(form) } else { None };
                let text = own.map_or_else(|| choose::naga(wgsl, entry, bindings.len()), Ok);
                self.make_pipeline(text, bindings.len())
            },
            Ok,
        );
        self.add_pipeline(id, made, entry);
    }

    fn poll_pipeline(&self, id: u32, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(match self.tables.lock().pipelines.get(&id) {
            Some(made) => made.as_ref().map(|_| ()).map_err(Clone::clone),
            None => Err(Error::internal(format!("the GPU has no pipeline {id}"))),
        })
    }

    fn free_pipeline(&self, id: u32) {
        self.tables.lock().pipelines.remove(&id);
    }

    fn create_bind_group(&self, id: u32, pipeline: u32, bindings: &[Binding]) {
        let tables = &mut *self.tables.lock();
        let Some(Ok(made)) = tables.pipelines.get(&pipeline) else {
            return tables.unknown("pipeline", pipeline);
        };
        match tables.bind_group(made, bindings) {
            Ok(group) => {
                tables.bind_groups.insert(id, group);
            }
            Err(error) => tables.report(error),
        }
    }

    fn free_bind_group(&self, id: u32) {
        self.tables.lock().bind_groups.remove(&id);
    }

    fn record(&self, list: u32, commands: &[Command]) {
        self.tables.lock().lists.insert(list, commands.to_vec());
    }

    fn free_list(&self, list: u32) {
        self.tables.lock().lists.remove(&list);
    }

    fn submit(&self, lists: &[u32]) {
        let tables = &mut *self.tables.lock();
        if let Err(error) = self.submit_lists(tables, lists) {
            tables.report(error);
        }
    }

    fn submit_timed(&self, id: u32, lists: &[u32]) {
        let tables = &mut *self.tables.lock();
        match self.submit_each(tables, lists) {
            Ok(times) => {
                tables.times.insert(id, times);
            }
            Err(error) => tables.report(error),
        }
    }

    fn poll_times(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<Vec<[u64; 2]>>> {
        let tables = &mut *self.tables.lock();
        let Some(times) = tables.times.get(&id) else {
            return Poll::Ready(Err(Error::internal(format!("the GPU has no times {id}"))));
        };
        let last = times.numbers.iter().copied().max().unwrap_or(0);
        if !self.wait(tables, last) && !tables.lost {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(times) = tables.times.remove(&id) else { return Poll::Ready(Err(gone())) };
        let spans = times.numbers.iter().map(|n| tables.spans.remove(n));
        Poll::Ready(spans.collect::<Option<Vec<_>>>().ok_or_else(gone))
    }

    fn read(&self, id: u32, buffer: u32, bytes: u64) {
        let tables = &mut *self.tables.lock();
        let Some(from) = tables.buffers.get(&buffer) else {
            return tables.unknown("buffer", buffer);
        };
        if bytes > from.bytes {
            let what = format!("a read of {bytes} bytes of a buffer of {}", from.bytes);
            return tables.report(Error::internal(what));
        }
        let after = tables.last;
        tables.reads.insert(id, tables::Read { buffer, bytes, after });
    }

    fn poll_read(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>>> {
        let tables = &mut *self.tables.lock();
        let Some(after) = tables.reads.get(&id).map(|read| read.after) else {
            return Poll::Ready(Err(Error::internal(format!("the GPU has no read {id}"))));
        };
        if !self.wait(tables, after) && !tables.lost {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = tables.reads.remove(&id);
        if tables.lost {
            return Poll::Ready(Err(gone()));
        }
        let found = read.and_then(|read| Some((tables.buffers.get(&read.buffer)?, read.bytes)));
        Poll::Ready(match found {
            Some((from, bytes)) => Ok(self.metal.read(&from.buffer, 0, bytes)),
            None => Err(Error::internal("a read lost its buffer")),
        })
    }

    fn fence(&self, id: u32) {
        let tables = &mut *self.tables.lock();
        // Writes that wait for a submission get one.
        if !tables.writes.is_empty()
            && let Err(error) = self.submit_lists(tables, &[])
        {
            tables.report(error);
        }
        let after = tables.last;
        tables.fences.insert(id, after);
    }

    fn poll_fence(&self, id: u32, cx: &mut Context<'_>) -> Poll<()> {
        let tables = &mut *self.tables.lock();
        let Some(after) = tables.fences.get(&id).copied() else { return Poll::Ready(()) };
        if !self.wait(tables, after) && !tables.lost {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        tables.fences.remove(&id);
        Poll::Ready(())
    }

    fn push_scopes(&self) {
        self.tables.lock().open = true;
    }

    fn pop_scopes(&self, id: u32) {
        let mut tables = self.tables.lock();
        tables.open = false;
        let caught = tables.caught.take();
        tables.scopes.insert(id, caught.map_or(Ok(()), Err));
    }

    fn poll_scopes(&self, id: u32, _: &mut Context<'_>) -> Poll<Result<()>> {
        let answer = self.tables.lock().scopes.remove(&id);
        Poll::Ready(answer.unwrap_or_else(|| Err(Error::internal(format!("no scopes {id}")))))
    }
}
