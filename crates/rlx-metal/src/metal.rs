//! Metal's calls by the system's own objects.
//!
//! No Mac was at hand when this was written: it is checked for types, and the calls that it gets are checked by the
//! tests' own Metal, but it has not run.

use crate::api::{DeviceInfo, Metal, Span};
use crate::msl::{Language, TENSORS, Text};
use crate::tensors::Tensors;
use block2::RcBlock;
use core::ffi::c_void;
use core::ptr::NonNull;
use core::time::Duration;
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::{NSObjectProtocol, ProtocolObject};
use objc2::{Message, sel};
use objc2_foundation::{NSProcessInfo, NSString};
use objc2_metal::{
    MTLBlitCommandEncoder, MTLBuffer, MTLCommandBuffer, MTLCommandBufferStatus, MTLCommandEncoder,
    MTLCommandQueue, MTLCompileOptions, MTLComputeCommandEncoder, MTLComputePipelineDescriptor,
    MTLComputePipelineState, MTLCopyAllDevices, MTLCreateSystemDefaultDevice, MTLDevice,
    MTLDispatchType, MTLGPUFamily, MTLLanguageVersion, MTLLibrary, MTLMathMode, MTLPipelineOption,
    MTLResidencySet, MTLResidencySetDescriptor, MTLResource, MTLResourceOptions, MTLSize,
};
use rlx_core::runtime::device::shared::Lock;
use rlx_core::{Code, Error, Result};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// An object of Metal's that any thread may call.
struct Shared<T>(Retained<T>);

impl<T: Message> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

// SAFETY: Metal's devices, queues, buffers, pipelines and residency sets may be used from any thread; only encoders
// and command buffers before their commit belong to one, and are not behind this type. The bytes of a buffer are
// touched only by `write` and `read`, whose caller keeps them in order.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

/// A GPU of this machine.
pub struct SystemMetal {
    info: DeviceInfo,
    device: Shared<ProtocolObject<dyn MTLDevice>>,
    queue: Shared<ProtocolObject<dyn MTLCommandQueue>>,
    /// Buffers that stay wired; from macOS 15 on.
    residency: Option<Shared<ProtocolObject<dyn MTLResidencySet>>>,
    /// Whether the set has changed since it was committed last.
    changed: Lock<bool>,
}

/// A buffer, and its bytes as the processor sees them.
#[derive(Clone)]
pub struct Buffer {
    buffer: Shared<ProtocolObject<dyn MTLBuffer>>,
    bytes: u64,
}

/// A pipeline.
pub struct Pipeline(Shared<ProtocolObject<dyn MTLComputePipelineState>>);

/// A command buffer and its open encoder.
pub struct Commands {
    buffer: Retained<ProtocolObject<dyn MTLCommandBuffer>>,
    compute: Option<Retained<ProtocolObject<dyn MTLComputeCommandEncoder>>>,
    blit: Option<Retained<ProtocolObject<dyn MTLBlitCommandEncoder>>>,
}

impl Commands {
    fn end(&mut self) {
        if let Some(encoder) = self.compute.take() {
            encoder.endEncoding();
        }
        if let Some(encoder) = self.blit.take() {
            encoder.endEncoding();
        }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        // Metal ends the process where an encoder is dropped open.
        self.end();
    }
}

/// What the handler of a command buffer's end leaves.
#[derive(Default)]
pub struct Ended {
    how: Mutex<Option<Result<Span>>>,
    told: Condvar,
}

fn unavailable(what: String) -> Error {
    Error::new(Code::DeviceUnavailable, what).hint("use --device webgpu or --device cpu")
}

/// Sizes fit: this is a 64-bit system.
fn size(n: u64) -> usize {
    n as usize
}

impl SystemMetal {
    /// The GPU whose name contains `name` (letter case does not matter), or the system's default.
    ///
    /// # Errors
    /// `DeviceUnavailable` where there is none, or it is none of Apple's own.
    pub fn new(name: Option<&str>) -> Result<SystemMetal> {
        let device = match name {
            None => MTLCreateSystemDefaultDevice(),
            Some(name) => {
                let wanted = name.to_lowercase();
                let fits = |name: &str| name.to_lowercase().contains(&wanted);
                MTLCopyAllDevices().iter().find(|d| fits(&d.name().to_string()))
            }
        };
        let device = device.ok_or_else(|| match name {
            None => unavailable("this machine has no GPU with Metal".into()),
            Some(name) => unavailable(format!("no GPU is named {name}")),
        })?;
        let name = device.name().to_string();
        // SIMD groups of 32 and their matrices.
        if !device.supportsFamily(MTLGPUFamily::Apple7) {
            return Err(unavailable(format!("{name} is not a GPU of Apple's from the M1 on")));
        }
        let queue = device.newCommandQueue();
        let queue = queue.ok_or_else(|| unavailable(format!("{name} gives no command queue")))?;
        let residency = if device.respondsToSelector(sel!(newResidencySetWithDescriptor:error:)) {
            // Without a set buffers are wired for each command buffer anew: slower, but right.
            device.newResidencySetWithDescriptor_error(&MTLResidencySetDescriptor::new()).ok()
        } else {
            None
        };
        if let Some(set) = &residency {
            queue.addResidencySet(set);
        }
        let process = NSProcessInfo::processInfo();
        let version = process.operatingSystemVersion();
        let info = DeviceInfo {
            name,
            system: process.operatingSystemVersionString().to_string(),
            max_buffer: device.maxBufferLength() as u64,
            memory: device.recommendedMaxWorkingSetSize(),
            threadgroup_memory: u32::try_from(device.maxThreadgroupMemoryLength())
                .unwrap_or(u32::MAX),
            // A system before 26 does not know the family Metal 4, and says no.
            tensors: Tensors::of(
                device.supportsFamily(MTLGPUFamily::Apple10),
                device.supportsFamily(MTLGPUFamily::Metal4),
                (version.majorVersion, version.minorVersion),
            ),
        };
        Ok(SystemMetal {
            info,
            device: Shared(device),
            queue: Shared(queue),
            residency: residency.map(Shared),
            changed: Lock::new(false),
        })
    }

    /// The bytes of a buffer from `offset` on; none for a range that it does not have.
    fn bytes(buffer: &Buffer, offset: u64, bytes: u64) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        if end > buffer.bytes {
            return None;
        }
        let start = buffer.buffer.0.contents().cast::<u8>();
        // SAFETY: the buffer has `buffer.bytes` bytes from `start` on, and `offset` is at most as many.
        Some(unsafe { start.add(size(offset)) }.as_ptr())
    }
}

/// A threadgroup of so many threads.
fn line(threads: u32) -> MTLSize {
    MTLSize { width: threads as usize, height: 1, depth: 1 }
}

/// Options of a text in this version of MSL.
fn options(language: Language) -> Retained<MTLCompileOptions> {
    let options = MTLCompileOptions::new();
    options.setLanguageVersion(match language {
        TENSORS => MTLLanguageVersion::Version4_0,
        _ => MTLLanguageVersion::Version3_0,
    });
    if options.respondsToSelector(sel!(setMathMode:)) {
        options.setMathMode(MTLMathMode::Safe);
    } else {
        #[allow(deprecated)] // the only way before macOS 15
        options.setFastMathEnabled(false);
    }
    options
}

/// How a command buffer has ended.
fn outcome(buffer: &ProtocolObject<dyn MTLCommandBuffer>) -> Result<Span> {
    if buffer.status() == MTLCommandBufferStatus::Error {
        let why = buffer.error().map(|e| e.localizedDescription().to_string());
        let what = format!("the GPU failed: {}", why.unwrap_or_default());
        return Err(Error::new(Code::DeviceLost, what).hint("load again"));
    }
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    Ok([ns(buffer.GPUStartTime()), ns(buffer.GPUEndTime())])
}

impl Metal for SystemMetal {
    type Buffer = Buffer;
    type Pipeline = Pipeline;
    type Commands = Commands;
    type Committed = Arc<Ended>;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn buffer(&self, bytes: u64, label: &str) -> Option<Buffer> {
        let options = MTLResourceOptions::StorageModeShared;
        let buffer = self.device.0.newBufferWithLength_options(size(bytes), options)?;
        buffer.setLabel(Some(&NSString::from_str(label)));
        Some(Buffer { buffer: Shared(buffer), bytes })
    }

    fn keep_resident(&self, buffer: &Buffer, keep: bool) {
        let Some(set) = &self.residency else { return };
        let buffer = ProtocolObject::from_ref(&*buffer.buffer.0);
        match keep {
            true => set.0.addAllocation(buffer),
            false => set.0.removeAllocation(buffer),
        }
        self.changed.set(true);
    }

    fn write(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) {
        if let Some(to) = Self::bytes(buffer, offset, bytes.len() as u64) {
            // SAFETY: `to` has room for the bytes, which are another allocation; by the trait's contract nothing that
            // is under way names the buffer, so that nobody else touches it.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        }
    }

    fn read(&self, buffer: &Buffer, offset: u64, bytes: u64) -> Vec<u8> {
        match Self::bytes(buffer, offset, bytes) {
            // SAFETY: so many bytes are there, a new buffer's are zero, and nobody writes them while they are copied.
            Some(from) => unsafe { core::slice::from_raw_parts(from, size(bytes)) }.to_vec(),
            None => Vec::new(),
        }
    }

    fn pipeline(&self, text: &Text) -> Result<Pipeline> {
        let Text { entry, threads, .. } = text;
        autoreleasepool(|_| {
            let device = &self.device.0;
            let options = options(text.language);
            let source = NSString::from_str(&text.text);
            let library = device.newLibraryWithSource_options_error(&source, Some(&options));
            let refused = |what: String| Error::internal(format!("Metal does not take it: {what}"));
            let library = library.map_err(|e| refused(e.localizedDescription().to_string()))?;
            let function = library.newFunctionWithName(&NSString::from_str(entry));
            let function = function.ok_or_else(|| refused(format!("no function {entry}")))?;
            let state = match text.language {
                TENSORS => {
                    let all = MTLComputePipelineDescriptor::new();
                    all.setComputeFunction(Some(&function));
                    // Metal asks for it where a kernel has cooperative tensors.
                    all.setRequiredThreadsPerThreadgroup(line(*threads));
                    let options = MTLPipelineOption::None;
                    device.newComputePipelineStateWithDescriptor_options_reflection_error(
                        &all, options, None,
                    )
                }
                _ => device.newComputePipelineStateWithFunction_error(&function),
            };
            let state = state.map_err(|e| refused(e.localizedDescription().to_string()))?;
            let most = state.maxTotalThreadsPerThreadgroup();
            if most < *threads as usize
                || state.threadExecutionWidth() != crate::gpu::LANES as usize
            {
                let lanes = state.threadExecutionWidth();
                return Err(refused(format!(
                    "{most} threads in groups of {lanes} lanes, it needs {threads} of 32"
                )));
            }
            Ok(Pipeline(Shared(state)))
        })
    }

    fn commands(&self) -> Result<Commands> {
        if let (true, Some(set)) = (core::mem::take(&mut *self.changed.lock()), &self.residency) {
            set.0.commit();
            set.0.requestResidency();
        }
        let buffer = autoreleasepool(|_| self.queue.0.commandBuffer());
        let buffer = buffer
            .ok_or_else(|| Error::new(Code::DeviceLost, "the GPU gives no command buffer"))?;
        Ok(Commands { buffer, compute: None, blit: None })
    }

    fn set_pipeline(&self, commands: &mut Commands, pipeline: &Pipeline) {
        if commands.compute.is_none() {
            commands.end();
            commands.compute = autoreleasepool(|_| {
                commands.buffer.computeCommandEncoderWithDispatchType(MTLDispatchType::Serial)
            });
        }
        if let Some(encoder) = &commands.compute {
            encoder.setComputePipelineState(&pipeline.0.0);
        }
    }

    fn set_buffer(&self, commands: &mut Commands, index: u32, buffer: &Buffer, offset: u64) {
        if let Some(encoder) = &commands.compute {
            // SAFETY: the index is one that the kernel declares, and the offset is within the buffer, which the
            // command buffer keeps; kernels clamp their indices to the sizes that they are told.
            unsafe {
                encoder.setBuffer_offset_atIndex(
                    Some(&buffer.buffer.0),
                    size(offset),
                    index as usize,
                );
            }
        }
    }

    fn set_bytes(&self, commands: &mut Commands, index: u32, bytes: &[u8]) {
        if let Some(encoder) = &commands.compute {
            let start = NonNull::from(bytes).cast::<c_void>();
            // SAFETY: so many bytes are there, and Metal copies them before it returns.
            unsafe { encoder.setBytes_length_atIndex(start, bytes.len(), index as usize) };
        }
    }

    fn set_threadgroup_memory(&self, commands: &mut Commands, index: u32, bytes: u32) {
        if let Some(encoder) = &commands.compute {
            // SAFETY: the index is one that the kernel declares, and all such memory is within the GPU's limit.
            unsafe {
                encoder.setThreadgroupMemoryLength_atIndex(bytes as usize, index as usize);
            }
        }
    }

    fn dispatch(&self, commands: &mut Commands, groups: [u32; 3], threads: u32) {
        if let Some(encoder) = &commands.compute {
            let [width, height, depth] = groups.map(|n| n as usize);
            encoder.dispatchThreadgroups_threadsPerThreadgroup(
                MTLSize { width, height, depth },
                line(threads),
            );
        }
    }

    fn copy(&self, commands: &mut Commands, from: (&Buffer, u64), to: (&Buffer, u64), bytes: u64) {
        if commands.blit.is_none() {
            commands.end();
            commands.blit = autoreleasepool(|_| commands.buffer.blitCommandEncoder());
        }
        if let Some(encoder) = &commands.blit {
            // SAFETY: the host has checked both ranges, and the command buffer keeps both buffers.
            unsafe {
                encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                    &from.0.buffer.0,
                    size(from.1),
                    &to.0.buffer.0,
                    size(to.1),
                    size(bytes),
                );
            }
        }
    }

    fn commit(&self, mut commands: Commands) -> Arc<Ended> {
        commands.end();
        let ended = Arc::new(Ended::default());
        let tell = ended.clone();
        let handler = RcBlock::new(move |buffer: NonNull<ProtocolObject<dyn MTLCommandBuffer>>| {
            // SAFETY: Metal calls with the command buffer that has ended, and keeps it for the call.
            let how = outcome(unsafe { buffer.as_ref() });
            *tell.how.lock().unwrap_or_else(PoisonError::into_inner) = Some(how);
            tell.told.notify_all();
        });
        // SAFETY: Metal copies the block; what it has captured may go to the thread that calls it.
        unsafe { commands.buffer.addCompletedHandler(RcBlock::as_ptr(&handler)) };
        commands.buffer.commit();
        ended
    }

    fn ended(&self, committed: &Arc<Ended>, at_most: Duration) -> Option<Result<Span>> {
        let how = committed.how.lock().unwrap_or_else(PoisonError::into_inner);
        if how.is_some() || at_most.is_zero() {
            return how.clone();
        }
        let waited = committed.told.wait_timeout_while(how, at_most, |how| how.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}
