//! The few calls of Metal that the executor makes, as a trait: [`metal`](crate::metal) answers them with the system's
//! own objects, tests with a checker that also runs the kernels.
//!
//! What the executor counts on, as Metal documents it:
//! - Buffers are `shared`: processor and GPU see the same bytes. Nothing puts their accesses in order, so the executor
//!   touches a buffer from the processor only while no submission that names it is under way.
//! - Hazards are `tracked` by Metal, between encoders and between command buffers of the one queue.
//! - A compute encoder is `serial`: a dispatch sees all that the one before it wrote. Kernels bind the arena whole, so
//!   that nearly every two of them would have to wait for each other anyway.
//! - A command buffer keeps alive what it uses until it has ended.

use crate::msl::Text;
use crate::tensors::Tensors;
use core::time::Duration;
use rlx_core::Result;
use rlx_core::runtime::device::shared::Anywhere;

/// What a GPU is and allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its name, such as `Apple M2 Pro`.
    pub name: String,
    /// The version of the system, which has the driver.
    pub system: String,
    /// The largest buffer, in bytes.
    pub max_buffer: u64,
    /// What all buffers may have together before the GPU slows down or fails, in bytes.
    pub memory: u64,
    /// Bytes of a threadgroup's memory.
    pub threadgroup_memory: u32,
    /// Whether kernels may use tensor operations.
    pub tensors: Tensors,
}

/// When the GPU began and ended a command buffer, in nanoseconds of its clock.
pub type Span = [u64; 2];

/// A GPU, its one command queue, and the calls that need them.
pub trait Metal: Anywhere {
    /// `MTLBuffer`: a handle, whose clones name one buffer.
    type Buffer: Anywhere + Clone;
    /// `MTLComputePipelineState`.
    type Pipeline: Anywhere;
    /// `MTLCommandBuffer`, and the encoder that is open in it.
    type Commands;
    /// The same once it is committed.
    type Committed: Anywhere;

    /// What the GPU is and allows.
    fn info(&self) -> &DeviceInfo;

    /// Makes a zeroed shared buffer; `None` without memory.
    fn buffer(&self, bytes: u64, label: &str) -> Option<Self::Buffer>;

    /// Keeps a buffer wired for the GPU from the next submission on, where the system has residency sets; or no longer.
    fn keep_resident(&self, buffer: &Self::Buffer, keep: bool);

    /// Writes by the processor, at once.
    fn write(&self, buffer: &Self::Buffer, offset: u64, bytes: &[u8]);

    /// Reads by the processor, at once.
    fn read(&self, buffer: &Self::Buffer, offset: u64, bytes: u64) -> Vec<u8>;

    /// Compiles a text in its version of MSL and makes a pipeline of its kernel, for threadgroups of so many threads
    /// with these bytes of memory.
    /// "Fast math" is off: kernels meet numbers that are not finite, and compare bits.
    ///
    /// # Errors
    /// `Internal` with the compiler's message, or for more threads than the kernel's registers leave room for.
    fn pipeline(&self, text: &Text) -> Result<Self::Pipeline>;

    /// A new command buffer of the queue.
    ///
    /// # Errors
    /// `DeviceLost` where the queue gives none.
    fn commands(&self) -> Result<Self::Commands>;

    /// Chooses the pipeline of the dispatches that follow. Opens a compute encoder.
    fn set_pipeline(&self, commands: &mut Self::Commands, pipeline: &Self::Pipeline);

    /// Binds a buffer from `offset` on at `[[buffer(index)]]`. Only behind `set_pipeline`.
    fn set_buffer(
        &self,
        commands: &mut Self::Commands,
        index: u32,
        buffer: &Self::Buffer,
        offset: u64,
    );

    /// Binds a copy of at most 4 KiB at `[[buffer(index)]]`. Only behind `set_pipeline`.
    fn set_bytes(&self, commands: &mut Self::Commands, index: u32, bytes: &[u8]);

    /// Bytes of a threadgroup's memory at `[[threadgroup(index)]]`, a multiple of 16. Only behind `set_pipeline`.
    fn set_threadgroup_memory(&self, commands: &mut Self::Commands, index: u32, bytes: u32);

    /// Launches so many threadgroups, each of so many threads in one dimension. Only behind `set_pipeline`.
    fn dispatch(&self, commands: &mut Self::Commands, groups: [u32; 3], threads: u32);

    /// Copies between buffers; offsets and bytes are multiples of 4. Closes the compute encoder, whose pipeline and
    /// bindings end with it.
    fn copy(
        &self,
        commands: &mut Self::Commands,
        from: (&Self::Buffer, u64),
        to: (&Self::Buffer, u64),
        bytes: u64,
    );

    /// Submits behind all that was committed before.
    fn commit(&self, commands: Self::Commands) -> Self::Committed;

    /// Waits until it has ended, but no longer than `at_most`; `None` if it has not.
    ///
    /// # Errors
    /// `DeviceLost` with Metal's message where it failed.
    fn ended(&self, committed: &Self::Committed, at_most: Duration) -> Option<Result<Span>>;
}
