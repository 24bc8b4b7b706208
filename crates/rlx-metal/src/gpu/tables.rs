//! What a host keeps under the executor's numbers.

use crate::api::{Metal, Span};
use rlx_core::{Error, Result};
use rlx_webgpu::gpu::{Binding, Command};
use std::collections::{BTreeMap, VecDeque};

/// A buffer, and when it was used last.
pub(super) struct Buffer<M: Metal> {
    pub buffer: M::Buffer,
    pub bytes: u64,
    pub resident: bool,
    /// The number of the last submission that names it; 0 for none.
    pub used: u64,
}

/// A pipeline, and what its dispatches are given.
pub(super) struct Pipeline<M: Metal> {
    pub state: M::Pipeline,
    pub threads: u32,
    /// Bytes of each variable of a threadgroup's memory.
    pub memory: Vec<u32>,
    /// Bindings whose sizes the kernel reads.
    pub sizes: Vec<u32>,
    pub bindings: usize,
}

/// What a dispatch binds.
pub(super) struct BindGroup {
    /// Each binding's buffer and offset.
    pub bindings: Vec<(u32, u64)>,
    /// The sizes that the kernel reads, behind the bindings.
    pub sizes: Vec<u8>,
}

/// A write on its way.
pub(super) struct Write<M: Metal> {
    pub from: M::Buffer,
    pub to: u32,
    pub offset: u64,
    pub bytes: u64,
}

/// A read of what submission `after` leaves in a buffer.
pub(super) struct Read {
    pub buffer: u32,
    pub bytes: u64,
    pub after: u64,
}

/// The submissions of the dispatches of a timed one, in order.
pub(super) struct Times {
    pub numbers: Vec<u64>,
}

pub(super) struct Tables<M: Metal> {
    pub buffers: BTreeMap<u32, Buffer<M>>,
    pub pipelines: BTreeMap<u32, Result<Pipeline<M>>>,
    pub bind_groups: BTreeMap<u32, BindGroup>,
    pub lists: BTreeMap<u32, Vec<Command>>,
    pub reads: BTreeMap<u32, Read>,
    pub fences: BTreeMap<u32, u64>,
    pub times: BTreeMap<u32, Times>,
    pub scopes: BTreeMap<u32, Result<()>>,
    /// Writes that the next submission begins with.
    pub writes: Vec<Write<M>>,
    /// Submissions under way, oldest first; each has the number after the one before.
    pub under_way: VecDeque<(u64, M::Committed)>,
    /// Numbers of the last submission, and of the last that has ended.
    pub last: u64,
    pub ended: u64,
    /// When submissions that are timed ran.
    pub spans: BTreeMap<u64, Span>,
    /// Bytes of all buffers.
    pub bytes: u64,
    /// Whether scopes are open, and what they have caught.
    pub open: bool,
    pub caught: Option<Error>,
    pub uncaught: Option<Error>,
    pub lost: bool,
}

impl<M: Metal> Default for Tables<M> {
    fn default() -> Self {
        Tables {
            buffers: BTreeMap::new(),
            pipelines: BTreeMap::new(),
            bind_groups: BTreeMap::new(),
            lists: BTreeMap::new(),
            reads: BTreeMap::new(),
            fences: BTreeMap::new(),
            times: BTreeMap::new(),
            scopes: BTreeMap::new(),
            writes: Vec::new(),
            under_way: VecDeque::new(),
            last: 0,
            ended: 0,
            spans: BTreeMap::new(),
            bytes: 0,
            open: false,
            caught: None,
            uncaught: None,
            lost: false,
        }
    }
}

impl<M: Metal> Tables<M> {
    /// The first error counts, of a scope or of none.
    pub fn report(&mut self, error: Error) {
        let slot = if self.open { &mut self.caught } else { &mut self.uncaught };
        slot.get_or_insert(error);
    }

    pub fn unknown(&mut self, what: &str, id: u32) {
        self.report(Error::internal(format!("the GPU has no {what} {id}")));
    }

    /// Checks ranges and notes sizes.
    pub fn bind_group(&self, pipeline: &Pipeline<M>, bindings: &[Binding]) -> Result<BindGroup> {
        if bindings.len() != pipeline.bindings {
            let (has, wants) = (bindings.len(), pipeline.bindings);
            return Err(Error::internal(format!("{has} bindings of a kernel that has {wants}")));
        }
        for b in bindings {
            let have = self.buffers.get(&b.buffer).map(|buffer| buffer.bytes);
            let end = b.offset.checked_add(b.size);
            if b.size == 0 || have.is_none_or(|have| end.is_none_or(|end| end > have)) {
                let what = format!("{} bytes at {} of buffer {}", b.size, b.offset, b.buffer);
                return Err(Error::internal(format!("a binding of {what}")));
            }
        }
        let mut sizes = Vec::with_capacity(4 * pipeline.sizes.len());
        for &n in &pipeline.sizes {
            let size = bindings.get(n as usize).and_then(|b| u32::try_from(b.size).ok());
            let size = size.ok_or_else(|| {
                Error::internal(format!("binding {n} is not there, or has 4 GiB and more"))
            })?;
            sizes.extend(size.to_le_bytes());
        }
        Ok(BindGroup { bindings: bindings.iter().map(|b| (b.buffer, b.offset)).collect(), sizes })
    }
}
