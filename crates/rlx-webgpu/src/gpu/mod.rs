//! What the executor needs of a WebGPU host, small enough to implement in a page of JavaScript.
//!
//! Ids are the caller's: it numbers buffers, pipelines, bind groups, lists, reads, scopes and
//! fences, each kind on its own, and never uses a number twice. No call blocks. Calls that cannot
//! answer at once are polled; a poll that answers `Pending` wakes the context when it is worth
//! asking again. Calls without a result report faults through error scopes, or, outside of them,
//! through [`Gpu::take_error`].

#[cfg(all(feature = "native", not(target_arch = "wasm32")))]
mod copy_rate;
mod counting;
#[cfg(all(feature = "native", not(target_arch = "wasm32")))]
pub mod native;
mod width;

#[cfg(all(feature = "native", not(target_arch = "wasm32")))]
pub use copy_rate::copy_rate;
pub use counting::{CountingGpu, Counts};
pub use width::{Vendor, Width};

use core::task::{Context, Poll};
use rlx_core::Result;
use rlx_core::runtime::device::shared::Anywhere;

/// What a buffer is for; a buffer has one of these uses only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Usage {
    /// `STORAGE | COPY_SRC | COPY_DST`: weights, states, arena, inputs.
    Storage,
    /// `UNIFORM | COPY_DST`: step constants.
    Uniform,
    /// `MAP_READ | COPY_DST`: bytes on their way back.
    Readback,
}

impl Usage {
    /// The bits of JavaScript's `GPUBufferUsage`.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Storage => 0x80 | 0x04 | 0x08,
            Self::Uniform => 0x40 | 0x08,
            Self::Readback => 0x01 | 0x08,
        }
    }
}

/// The type of a binding; the position in the list is the number in `@binding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BindingKind {
    /// `var<uniform>`, JavaScript's `uniform`.
    Uniform,
    /// `var<storage, read>`, JavaScript's `read-only-storage`.
    Read,
    /// `var<storage, read_write>`, JavaScript's `storage`.
    ReadWrite,
}

/// A range of a buffer for one binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The buffer.
    pub buffer: u32,
    /// Bytes from its start, a multiple of 256.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// One entry of a recorded list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A kernel launch. Consecutive ones share a compute pass.
    Dispatch {
        /// The pipeline.
        pipeline: u32,
        /// Its bind group 0.
        bind_group: u32,
        /// Workgroups, each at most 65,535.
        groups: [u32; 3],
    },
    /// A copy between buffers; offsets and bytes are multiples of 4.
    Copy {
        /// Source buffer.
        from: u32,
        /// Bytes from its start.
        from_offset: u64,
        /// Destination buffer.
        to: u32,
        /// Bytes from its start.
        to_offset: u64,
        /// How many bytes.
        bytes: u64,
    },
}

/// What the adapter is and allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuInfo {
    /// The adapter's name; in a browser what `GPUAdapterInfo` tells.
    pub adapter: String,
    /// The driver's name and version, where a host tells.
    pub driver: String,
    /// Optional features in use, by their WebGPU names.
    pub features: Vec<String>,
    /// `maxBufferSize` of the device, in bytes.
    pub max_buffer: u64,
    /// `maxStorageBufferBindingSize` of the device, in bytes.
    pub max_binding: u64,
    /// `maxStorageBuffersPerShaderStage` of the device.
    pub max_storage_buffers: u32,
    /// What its WGSL has.
    pub wgsl: Wgsl,
    /// The lanes of its subgroups, and how they are known.
    pub width: Width,
    /// Whether the processor simulates it.
    pub software: bool,
    /// Whether [`Gpu::submit_timed`] notes times.
    pub timestamps: bool,
}

/// What a device's WGSL has beyond what every WebGPU has, and how it wants to be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wgsl {
    /// `packed_4x8_integer_dot_product`.
    pub packed_dot: bool,
    /// Lanes that every subgroup has at least, where there are subgroups.
    pub subgroup: Option<u32>,
    /// Whether a shader with subgroups must say `enable subgroups;`: Tint demands it, naga refuses it.
    pub enable_subgroups: bool,
    /// `shader-f16`: arithmetic with 16-bit floats. Kernels use it where the [tuning](crate::tuning::Tuning) says so.
    pub f16: bool,
}

/// Names of what kernels have a form without.
pub const SUBGROUPS: &str = "subgroups";
/// As WGSL names its language feature.
pub const PACKED_DOT: &str = "packed_4x8_integer_dot_product";
/// As WebGPU names its device feature.
pub const SHADER_F16: &str = "shader-f16";

impl Wgsl {
    /// Lanes that kernels shuffle among, at most 32; 1 where they do without.
    pub fn lanes(&self) -> u32 {
        match self.subgroup {
            Some(least) if least >= 4 => least.min(width::MOST),
            _ => 1,
        }
    }

    /// Names of the features that kernels use.
    pub fn features(&self) -> Vec<&'static str> {
        let all =
            [(self.lanes() > 1, SUBGROUPS), (self.packed_dot, PACKED_DOT), (self.f16, SHADER_F16)];
        all.into_iter().filter(|f| f.0).map(|f| f.1).collect()
    }

    /// The same without these features.
    #[must_use]
    pub fn without(self, features: &[&str]) -> Wgsl {
        Wgsl {
            packed_dot: self.packed_dot && !features.contains(&PACKED_DOT),
            subgroup: self.subgroup.filter(|_| !features.contains(&SUBGROUPS)),
            f16: self.f16 && !features.contains(&SHADER_F16),
            ..self
        }
    }
}

/// What a kernel computes, for a host that has a text of its own for it. Two kernels of one WGSL text have equal forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The kernel's name, which says what its bindings and step constants are.
    pub name: &'static str,
    /// What its text depends on besides.
    pub parameters: Vec<(&'static str, String)>,
}

impl Form {
    /// A parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|p| p.0 == name).map(|p| p.1.as_str())
    }
}

/// A WebGPU host. See the module's page for ids and polling.
pub trait Gpu: Anywhere {
    /// What the adapter is and allows.
    fn info(&self) -> GpuInfo;

    /// What kernels of the host's own use beyond what WebGPU has, by names.
    fn extras(&self) -> Vec<String> {
        Vec::new()
    }

    /// What they could use and do not: names, and why. It may grow as pipelines are made.
    fn unused(&self) -> Vec<String> {
        Vec::new()
    }

    /// True once the device is lost; nothing works after that.
    fn is_lost(&self) -> bool;

    /// The first fault since the last call that no scope caught.
    fn take_error(&self) -> Option<rlx_core::Error>;

    /// Makes a zeroed buffer of `size` bytes, a multiple of 4.
    fn create_buffer(&self, id: u32, size: u64, usage: Usage, label: &str);

    /// Destroys a buffer; reads of it are dropped.
    fn destroy_buffer(&self, id: u32);

    /// Queues a write; offset and length are multiples of 4. The bytes are copied before it returns.
    fn write_buffer(&self, id: u32, offset: u64, bytes: &[u8]);

    /// Starts compiling entry point `entry` of `wgsl`, whose bind group 0 has `bindings`.
    fn create_pipeline(&self, id: u32, wgsl: &str, entry: &str, bindings: &[BindingKind]);

    /// The same for a kernel that the host may have a text of its own for. That one has the same bindings, step
    /// constants and workgroups, each with as many threads as it likes.
    fn create_pipeline_of(
        &self,
        id: u32,
        wgsl: &str,
        entry: &str,
        bindings: &[BindingKind],
        _form: &Form,
    ) {
        self.create_pipeline(id, wgsl, entry, bindings);
    }

    /// Whether the pipeline is ready. May be asked again after `Ready`.
    ///
    /// # Errors
    /// `Internal` with the compiler's message.
    fn poll_pipeline(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<()>>;

    /// Forgets a pipeline.
    fn free_pipeline(&self, id: u32);

    /// Makes bind group 0 of a ready pipeline.
    fn create_bind_group(&self, id: u32, pipeline: u32, bindings: &[Binding]);

    /// Forgets a bind group.
    fn free_bind_group(&self, id: u32);

    /// Records a list; it is replayed by every [`submit`](Gpu::submit) that names it.
    fn record(&self, list: u32, commands: &[Command]);

    /// Forgets a list.
    fn free_list(&self, list: u32);

    /// Encodes the lists in order and submits them, as one queue submission.
    fn submit(&self, lists: &[u32]);

    /// The same with a pass for each dispatch, whose begin and end the device's clock notes under `id`.
    /// Only where [`GpuInfo::timestamps`] says so.
    fn submit_timed(&self, id: u32, lists: &[u32]);

    /// Begin and end of every dispatch of a timed submission, in order, in nanoseconds of the device's
    /// clock; the answer ends the id.
    ///
    /// # Errors
    /// `DeviceLost`, or `Internal` where there are no such times.
    fn poll_times(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<Vec<[u64; 2]>>>;

    /// Starts mapping a readback buffer from its start: what submissions so far leave in it.
    fn read(&self, id: u32, buffer: u32, bytes: u64);

    /// The bytes of a read, which ends with its answer; the buffer is unmapped by then.
    ///
    /// # Errors
    /// `DeviceLost`, or `Internal` where mapping failed.
    fn poll_read(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>>>;

    /// Starts waiting for everything queued so far, writes included.
    fn fence(&self, id: u32);

    /// Whether a fence is reached, which ends it with its answer.
    fn poll_fence(&self, id: u32, cx: &mut Context<'_>) -> Poll<()>;

    /// Opens error scopes for out-of-memory and validation; they do not nest.
    fn push_scopes(&self);

    /// Closes them under this id.
    fn pop_scopes(&self, id: u32);

    /// What closed scopes caught, which ends them with their answer.
    ///
    /// # Errors
    /// `OutOfMemory`, or `Internal` with the validation message.
    fn poll_scopes(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<()>>;
}
