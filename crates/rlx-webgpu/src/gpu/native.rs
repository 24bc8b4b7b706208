//! The GPU of this machine, by wgpu.

mod timing;

use super::{Binding, BindingKind, Command, Gpu, GpuInfo, Usage, Vendor, Wgsl, Width};
use core::future::Future;
use core::task::{Context, Poll, Waker};
use rlx_core::runtime::device::shared::Lock;
use rlx_core::{Code, Error, Result};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use timing::Times;

/// The longest a poll blocks before it answers `Pending`.
const SLICE: Duration = Duration::from_millis(50);
/// How many slices a failed readback waits at most until all submissions have ended: half a minute.
const ENDING_SLICES: usize = 600;

const MAPPING: u8 = 0;
const MAPPED: u8 = 1;
const FAILED: u8 = 2;

struct Pipeline {
    made: Result<(wgpu::ComputePipeline, wgpu::BindGroupLayout)>,
}

struct Read {
    buffer: u32,
    bytes: u64,
    state: Arc<AtomicU8>,
    after: Option<wgpu::SubmissionIndex>,
}

struct Fence {
    reached: Arc<AtomicBool>,
    after: wgpu::SubmissionIndex,
}

thread_local! {
    /// wgpu's error scopes are a thread's; they are opened and closed within one call of the executor.
    static OPEN: core::cell::RefCell<Vec<wgpu::ErrorScopeGuard>> = const { core::cell::RefCell::new(Vec::new()) };
}

#[derive(Default)]
struct Tables {
    buffers: BTreeMap<u32, wgpu::Buffer>,
    pipelines: BTreeMap<u32, Pipeline>,
    bind_groups: BTreeMap<u32, wgpu::BindGroup>,
    lists: BTreeMap<u32, Vec<Command>>,
    reads: BTreeMap<u32, Read>,
    fences: BTreeMap<u32, Fence>,
    times: BTreeMap<u32, Times>,
    scopes: BTreeMap<u32, Result<()>>,
    last: Option<wgpu::SubmissionIndex>,
    /// Whether something was written since the last submission.
    written: bool,
}

/// A [`Gpu`] over wgpu. Its polls wait on the device for up to 50 ms, so that a thread that has
/// nothing else to do may simply poll in a loop.
pub struct NativeGpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
    info: GpuInfo,
    lost: Arc<AtomicBool>,
    uncaught: Arc<Mutex<Option<Error>>>,
    tables: Lock<Tables>,
}

/// wgpu's native futures answer within a few polls: none waits for another thread.
fn block<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(out) = future.as_mut().poll(&mut cx) {
            return out;
        }
        std::thread::yield_now();
    }
}

fn unavailable(what: String) -> Error {
    Error::new(Code::DeviceUnavailable, what).hint(
        "install a Vulkan driver (on Debian: apt-get install mesa-vulkan-drivers libvulkan1), or use --device cpu",
    )
}

fn gone() -> Error {
    Error::new(Code::DeviceLost, "the GPU went away")
}

fn fault(error: &wgpu::Error) -> Error {
    match error {
        wgpu::Error::OutOfMemory { .. } => {
            Error::new(Code::OutOfMemory, "the GPU has too little memory")
                .hint("use a smaller model or context, or another device")
        }
        wgpu::Error::Validation { description, .. } => {
            Error::internal(format!("WebGPU refused a call: {description}"))
        }
        wgpu::Error::Internal { description, .. } => {
            Error::internal(format!("the GPU driver failed: {description}"))
        }
    }
}

/// What wgpu tells of the GPU's maker. On Metal it tells no number of one.
fn vendor(about: &wgpu::AdapterInfo) -> Vendor {
    const INTEL: u32 = 0x8086;
    match about.backend {
        wgpu::Backend::Metal if about.name.starts_with("Apple") => Vendor::Apple,
        _ if about.vendor == INTEL || about.name.starts_with("Intel") => Vendor::Intel,
        _ => Vendor::Other,
    }
}

impl NativeGpu {
    /// Opens the adapter whose name contains `adapter_name` (letter case does not matter), or the
    /// fastest one. Asks for the adapter's own buffer limits, and for subgroups and f16 arithmetic
    /// where it has them.
    ///
    /// # Errors
    /// `DeviceUnavailable` where there is no such adapter, or it refuses to open.
    pub fn new(adapter_name: Option<&str>) -> Result<NativeGpu> {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.flags = wgpu::InstanceFlags::empty();
        let instance = wgpu::Instance::new(descriptor);
        let adapter = match adapter_name {
            None => block(instance.request_adapter(&wgpu::RequestAdapterOptions {
                power_preference: wgpu::PowerPreference::HighPerformance,
                ..Default::default()
            }))
            .map_err(|_| unavailable("this machine has no WebGPU adapter".into()))?,
            Some(name) => {
                let all = block(instance.enumerate_adapters(wgpu::Backends::all()));
                let names: Vec<String> = all.iter().map(|a| a.get_info().name).collect();
                let wanted = name.to_lowercase();
                let at = names.iter().position(|n| n.to_lowercase().contains(&wanted));
                let have = if names.is_empty() { "none".into() } else { names.join(", ") };
                at.and_then(|i| all.into_iter().nth(i)).ok_or_else(|| {
                    unavailable(format!("no WebGPU adapter is named {name}; adapters: {have}"))
                })?
            }
        };
        let own = adapter.limits();
        let limits = wgpu::Limits {
            max_buffer_size: own.max_buffer_size,
            max_storage_buffer_binding_size: own.max_storage_buffer_binding_size,
            ..wgpu::Limits::default()
        };
        let optional =
            wgpu::Features::SUBGROUP | wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::SHADER_F16;
        let features = adapter.features() & optional;
        let subgroups = features.contains(wgpu::Features::SUBGROUP);
        let open = |limits: wgpu::Limits| {
            block(adapter.request_device(&wgpu::DeviceDescriptor {
                label: Some("rlx"),
                required_features: features,
                required_limits: limits,
                memory_hints: wgpu::MemoryHints::MemoryUsage,
                ..Default::default()
            }))
        };
        let about = adapter.get_info();
        let width = match subgroups {
            true => Width::of(about.subgroup_min_size, about.subgroup_max_size, vendor(&about)),
            false => Width::None,
        };
        let name = about.name;
        let (device, queue) = open(limits)
            .or_else(|_| open(wgpu::Limits::default()))
            .map_err(|e| unavailable(format!("the WebGPU adapter {name} did not open: {e}")))?;
        let lost = Arc::new(AtomicBool::new(false));
        let set_lost = lost.clone();
        device.set_device_lost_callback(move |_, _| set_lost.store(true, Ordering::Release));
        let uncaught = Arc::new(Mutex::new(None));
        let set_uncaught = uncaught.clone();
        device.on_uncaptured_error(Arc::new(move |e| {
            if let Ok(mut slot) = set_uncaught.lock()
                && slot.is_none()
            {
                *slot = Some(fault(&e));
            }
        }));
        let limits = device.limits();
        let info = GpuInfo {
            adapter: name,
            driver: format!("{} {}", about.driver, about.driver_info),
            features: if subgroups { vec!["subgroups".into()] } else { Vec::new() },
            max_buffer: limits.max_buffer_size,
            max_binding: limits.max_storage_buffer_binding_size,
            max_storage_buffers: limits.max_storage_buffers_per_shader_stage,
            wgsl: Wgsl {
                packed_dot: instance
                    .wgsl_language_features()
                    .contains(wgpu::WgslLanguageFeatures::Packed4x8IntegerDotProduct),
                subgroup: width.lanes(),
                enable_subgroups: false,
                f16: features.contains(wgpu::Features::SHADER_F16),
            },
            width,
            software: about.device_type == wgpu::DeviceType::Cpu,
            timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
        };
        Ok(NativeGpu { device, queue, info, lost, uncaught, tables: Lock::default() })
    }

    /// Loses the device, as a driver that resets does; for tests of what comes after.
    pub fn lose(&self) {
        self.device.destroy();
    }

    fn report(&self, error: Error) {
        if let Ok(mut slot) = self.uncaught.lock()
            && slot.is_none()
        {
            *slot = Some(error);
        }
    }

    fn unknown(&self, what: &str, id: u32) {
        self.report(Error::internal(format!("the GPU has no {what} {id}")));
    }

    /// Runs callbacks; waits for `after`, but no longer than a slice.
    fn wait(&self, after: Option<&wgpu::SubmissionIndex>) {
        let poll = match after {
            Some(index) => {
                wgpu::PollType::Wait { submission_index: Some(index.clone()), timeout: Some(SLICE) }
            }
            None => wgpu::PollType::Poll,
        };
        // A timeout is no fault: the caller asks again. A lost device is seen by its callback.
        let _ = self.device.poll(poll);
    }

    /// One submission of the lists. With `times` each dispatch is a pass of its own.
    fn encode(&self, lists: &[u32], mut times: Option<&mut Times>) {
        let mut tables = self.tables.lock();
        let mut encoder = self.device.create_command_encoder(&Default::default());
        // Launches share a pass across lists.
        let mut pass: Option<wgpu::ComputePass<'static>> = None;
        for list in lists {
            let Some(commands) = tables.lists.get(list) else {
                return self.unknown("list", *list);
            };
            for command in commands {
                match *command {
                    Command::Dispatch { pipeline, bind_group, groups: [x, y, z] } => {
                        let made = tables.pipelines.get(&pipeline).map(|p| &p.made);
                        let (Some(Ok((pipeline, _))), Some(group)) =
                            (made, tables.bind_groups.get(&bind_group))
                        else {
                            return self.unknown("pipeline or bind group", bind_group);
                        };
                        if times.is_some() {
                            pass = None;
                        }
                        let pass = pass.get_or_insert_with(|| {
                            let descriptor = wgpu::ComputePassDescriptor {
                                timestamp_writes: times.as_deref_mut().map(Times::next_pass),
                                ..Default::default()
                            };
                            encoder.begin_compute_pass(&descriptor).forget_lifetime()
                        });
                        pass.set_pipeline(pipeline);
                        pass.set_bind_group(0, group, &[]);
                        pass.dispatch_workgroups(x, y, z);
                    }
                    Command::Copy { from, from_offset, to, to_offset, bytes } => {
                        pass = None;
                        let (Some(from), Some(to)) =
                            (tables.buffers.get(&from), tables.buffers.get(&to))
                        else {
                            return self.unknown("buffer", from);
                        };
                        encoder.copy_buffer_to_buffer(from, from_offset, to, to_offset, bytes);
                    }
                }
            }
        }
        drop(pass);
        if let Some(times) = times {
            times.resolve(&mut encoder);
        }
        tables.last = Some(self.queue.submit([encoder.finish()]));
        tables.written = false;
    }

    /// Why a readback failed, whose fault seems to be `error`: on a lost device the loss, which wgpu
    /// announces only once everything submitted has ended. On a busy machine that takes more than a
    /// slice.
    fn failed(&self, error: Error) -> Error {
        for _ in 0..ENDING_SLICES {
            if self.is_lost() {
                return gone();
            }
            let all = wgpu::PollType::Wait { submission_index: None, timeout: Some(SLICE) };
            match self.device.poll(all) {
                // All has ended and its callbacks have run, or the device says why it can't wait.
                Ok(wgpu::PollStatus::QueueEmpty)
                | Err(wgpu::PollError::WrongSubmissionIndex(..)) => break,
                Ok(_) | Err(_) => {}
            }
        }
        if self.is_lost() { gone() } else { error }
    }

    fn scoped<T>(&self, make: impl FnOnce() -> T) -> Result<T> {
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let made = make();
        let caught = [block(internal.pop()), block(validation.pop()), block(memory.pop())];
        match caught.into_iter().flatten().next() {
            Some(error) => Err(fault(&error)),
            None => Ok(made),
        }
    }
}

impl Gpu for NativeGpu {
    fn info(&self) -> GpuInfo {
        self.info.clone()
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    fn take_error(&self) -> Option<Error> {
        self.uncaught.lock().ok().and_then(|mut slot| slot.take())
    }

    fn create_buffer(&self, id: u32, size: u64, usage: Usage, label: &str) {
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage: wgpu::BufferUsages::from_bits_truncate(usage.bits()),
            mapped_at_creation: false,
        });
        self.tables.lock().buffers.insert(id, buffer);
    }

    fn destroy_buffer(&self, id: u32) {
        let mut tables = self.tables.lock();
        tables.reads.retain(|_, r| r.buffer != id);
        if let Some(buffer) = tables.buffers.remove(&id) {
            buffer.destroy();
        }
    }

    fn write_buffer(&self, id: u32, offset: u64, bytes: &[u8]) {
        let mut tables = self.tables.lock();
        tables.written = true;
        match tables.buffers.get(&id) {
            Some(buffer) => self.queue.write_buffer(buffer, offset, bytes),
            None => self.unknown("buffer", id),
        }
    }

    fn create_pipeline(&self, id: u32, wgsl: &str, entry: &str, bindings: &[BindingKind]) {
        let entries: Vec<wgpu::BindGroupLayoutEntry> = bindings
            .iter()
            .enumerate()
            .map(|(i, kind)| wgpu::BindGroupLayoutEntry {
                binding: i as u32,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: match kind {
                        BindingKind::Uniform => wgpu::BufferBindingType::Uniform,
                        BindingKind::Read => wgpu::BufferBindingType::Storage { read_only: true },
                        BindingKind::ReadWrite => {
                            wgpu::BufferBindingType::Storage { read_only: false }
                        }
                    },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            })
            .collect();
        let made = self.scoped(|| {
            let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some(entry),
                source: wgpu::ShaderSource::Wgsl(wgsl.into()),
            });
            let group = self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: Some(entry),
                entries: &entries,
            });
            let layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: Some(entry),
                bind_group_layouts: &[Some(&group)],
                immediate_size: 0,
            });
            let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(entry),
                layout: Some(&layout),
                module: &module,
                entry_point: Some(entry),
                compilation_options: Default::default(),
                cache: None,
            });
            (pipeline, group)
        });
        let made = made.map_err(|e| e.at(format!("kernel {entry}")));
        self.tables.lock().pipelines.insert(id, Pipeline { made });
    }

    fn poll_pipeline(&self, id: u32, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(match self.tables.lock().pipelines.get(&id) {
            Some(p) => p.made.as_ref().map(|_| ()).map_err(Clone::clone),
            None => Err(Error::internal(format!("the GPU has no pipeline {id}"))),
        })
    }

    fn free_pipeline(&self, id: u32) {
        self.tables.lock().pipelines.remove(&id);
    }

    fn create_bind_group(&self, id: u32, pipeline: u32, bindings: &[Binding]) {
        let mut tables = self.tables.lock();
        let Some(Ok((_, layout))) = tables.pipelines.get(&pipeline).map(|p| &p.made) else {
            return self.unknown("pipeline", pipeline);
        };
        let mut entries = Vec::with_capacity(bindings.len());
        for (i, b) in bindings.iter().enumerate() {
            let Some(buffer) = tables.buffers.get(&b.buffer) else {
                return self.unknown("buffer", b.buffer);
            };
            entries.push(wgpu::BindGroupEntry {
                binding: i as u32,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer,
                    offset: b.offset,
                    size: core::num::NonZeroU64::new(b.size),
                }),
            });
        }
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout,
            entries: &entries,
        });
        tables.bind_groups.insert(id, group);
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
        self.encode(lists, None);
    }

    fn submit_timed(&self, id: u32, lists: &[u32]) {
        let dispatches = {
            let tables = self.tables.lock();
            let commands = lists.iter().filter_map(|l| tables.lists.get(l)).flatten();
            commands.filter(|c| matches!(c, Command::Dispatch { .. })).count()
        };
        match Times::new(&self.device, dispatches) {
            Ok(mut times) => {
                self.encode(lists, Some(&mut times));
                times.map();
                self.tables.lock().times.insert(id, times);
            }
            Err(error) => self.report(error),
        }
    }

    fn poll_times(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<Vec<[u64; 2]>>> {
        let Some(times) = self.tables.lock().times.remove(&id) else {
            return Poll::Ready(Err(Error::internal(format!("the GPU has no times {id}"))));
        };
        if !times.is_there() {
            self.wait(self.tables.lock().last.clone().as_ref());
        }
        if times.is_there() {
            let read = times.read(self.queue.get_timestamp_period());
            return Poll::Ready(read.map_err(|error| self.failed(error)));
        }
        if self.is_lost() {
            return Poll::Ready(Err(gone()));
        }
        self.tables.lock().times.insert(id, times);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn read(&self, id: u32, buffer: u32, bytes: u64) {
        let mut tables = self.tables.lock();
        let state = Arc::new(AtomicU8::new(MAPPING));
        let set = state.clone();
        match tables.buffers.get(&buffer) {
            Some(b) => b.map_async(wgpu::MapMode::Read, 0..bytes, move |result| {
                set.store(if result.is_ok() { MAPPED } else { FAILED }, Ordering::Release);
            }),
            None => return self.unknown("buffer", buffer),
        }
        let after = tables.last.clone();
        tables.reads.insert(id, Read { buffer, bytes, state, after });
    }

    fn poll_read(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>>> {
        let (state, after) = match self.tables.lock().reads.get(&id) {
            Some(read) => (read.state.clone(), read.after.clone()),
            None => return Poll::Ready(Err(Error::internal(format!("the GPU has no read {id}")))),
        };
        if state.load(Ordering::Acquire) == MAPPING {
            self.wait(after.as_ref());
        }
        if state.load(Ordering::Acquire) == MAPPING {
            if self.is_lost() {
                return Poll::Ready(Err(gone()));
            }
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut tables = self.tables.lock();
        let read = tables.reads.remove(&id);
        let buffer = read.as_ref().and_then(|r| tables.buffers.get(&r.buffer));
        let (Some(read), Some(buffer)) = (&read, buffer) else {
            return Poll::Ready(Err(Error::internal("a read lost its buffer")));
        };
        if state.load(Ordering::Acquire) == FAILED {
            let error = Error::internal("a readback buffer could not be mapped");
            return Poll::Ready(Err(self.failed(error)));
        }
        let bytes = match buffer.get_mapped_range(0..read.bytes) {
            Ok(view) => Ok(view.to_vec()),
            Err(e) => {
                let error = Error::internal(format!("a readback buffer is not mapped: {e}"));
                Err(self.failed(error))
            }
        };
        buffer.unmap();
        Poll::Ready(bytes)
    }

    fn fence(&self, id: u32) {
        let reached = Arc::new(AtomicBool::new(false));
        let set = reached.clone();
        let mut tables = self.tables.lock();
        let after = match &tables.last {
            Some(last) if !tables.written => last.clone(),
            // wgpu sends writes with the next submission: an empty one carries them.
            _ => self.queue.submit([]),
        };
        self.queue.on_submitted_work_done(move || set.store(true, Ordering::Release));
        tables.written = false;
        tables.last = Some(after.clone());
        tables.fences.insert(id, Fence { reached, after });
    }

    fn poll_fence(&self, id: u32, cx: &mut Context<'_>) -> Poll<()> {
        let (reached, after) = match self.tables.lock().fences.get(&id) {
            Some(f) => (f.reached.clone(), f.after.clone()),
            None => return Poll::Ready(()),
        };
        if !reached.load(Ordering::Acquire) {
            self.wait(Some(&after));
        }
        if !reached.load(Ordering::Acquire) && !self.is_lost() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.tables.lock().fences.remove(&id);
        Poll::Ready(())
    }

    fn push_scopes(&self) {
        let filters = [wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Validation];
        let guards = filters.map(|f| self.device.push_error_scope(f));
        OPEN.with_borrow_mut(|open| open.extend(guards));
    }

    fn pop_scopes(&self, id: u32) {
        let mut tables = self.tables.lock();
        let mut caught = None;
        for guard in OPEN.take().into_iter().rev() {
            // Out of memory was pushed first, so it comes last and wins.
            caught = block(guard.pop()).or(caught);
        }
        tables.scopes.insert(id, caught.map_or(Ok(()), |e| Err(fault(&e))));
    }

    fn poll_scopes(&self, id: u32, _: &mut Context<'_>) -> Poll<Result<()>> {
        let answer = self.tables.lock().scopes.remove(&id);
        Poll::Ready(answer.unwrap_or_else(|| Err(Error::internal(format!("no scopes {id}")))))
    }
}
