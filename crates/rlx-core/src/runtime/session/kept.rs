//! Tensors on the device: outputs of one run that are inputs of another.

use super::{Made, Session, TensorRef};
use crate::error::{Error, Result};
#[cfg(feature = "text")]
use crate::runtime::device::Copy;
use crate::runtime::device::{AnyId, Device, Memory, SessionId, TensorId, Ticket};
#[cfg(feature = "text")]
use crate::types::Scalar;
use crate::types::{DType, Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

/// A tensor in the memory of a session's device. Clones share the memory, which is freed with the last clone or
/// the session.
#[derive(Clone)]
pub struct DeviceTensor {
    held: Arc<Held>,
    name: String,
    dtype: DType,
    dims: Vec<u64>,
}

/// Memory of a device, freed when it is dropped.
struct Held {
    device: Arc<dyn Device>,
    session: SessionId,
    id: TensorId,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.device.free(AnyId::Tensor(self.session, self.id));
    }
}

impl DeviceTensor {
    /// The name of the output that it came from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes, outermost first; empty for a scalar.
    pub fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// Where its device has it.
    pub fn place(&self) -> (SessionId, TensorId) {
        (self.held.session, self.held.id)
    }

    /// Its memory, if the tensor belongs to this session.
    pub(super) fn memory(&self, session: &Session) -> Result<Memory> {
        let same = session.memory.as_ref().is_some_and(|m| m.0 == self.held.session);
        if !same || !Arc::ptr_eq(&session.device, &self.held.device) {
            let what = format!("{} stays in the memory of another session", self.name);
            return Err(Error::usage(what).hint("read it there, and give its elements here"));
        }
        Ok(Memory::Tensor(self.held.id))
    }

    /// Bytes of its elements.
    pub(super) fn bytes(&self) -> Result<u64> {
        Type::tensor(self.dtype, Shape::of(&self.dims)).bytes()
    }
}

/// An input of a run: a tensor of the host or of the device.
#[derive(Clone, Copy)]
pub enum Given<'a> {
    /// A tensor of the host.
    Host(TensorRef<'a>),
    /// A tensor of the session's device.
    Device(&'a DeviceTensor),
}

impl<'a> From<TensorRef<'a>> for Given<'a> {
    fn from(tensor: TensorRef<'a>) -> Self {
        Given::Host(tensor)
    }
}

impl<'a> From<&'a DeviceTensor> for Given<'a> {
    fn from(tensor: &'a DeviceTensor) -> Self {
        Given::Device(tensor)
    }
}

impl<'a> Given<'a> {
    pub(super) fn dtype(&self) -> DType {
        match self {
            Self::Host(t) => t.dtype,
            Self::Device(t) => t.dtype,
        }
    }

    pub(super) fn dims(&self) -> &'a [u64] {
        match self {
            Self::Host(t) => t.dims,
            Self::Device(t) => &t.dims,
        }
    }
}

/// A read of a device tensor in progress. Poll it with its session.
pub struct Reading {
    of: DeviceTensor,
    ticket: Ticket,
}

impl Reading {
    /// Answers once, with the elements as they were after everything queued before the read.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn poll(
        &mut self,
        session: &mut Session,
        cx: &mut Context<'_>,
    ) -> Poll<Result<super::Tensor>> {
        let mut read = ready!(session.device.poll(self.ticket, cx))?;
        let mut bytes = read.values.pop().unwrap_or_default();
        bytes.truncate(self.of.bytes()? as usize);
        let DeviceTensor { name, dtype, dims, .. } = self.of.clone();
        Poll::Ready(Ok(super::Tensor { name, dtype, dims, bytes }))
    }
}

impl Session {
    /// Starts to read a tensor of the device.
    ///
    /// # Errors
    /// `Usage` for a tensor of another session; errors of the device.
    pub fn read(&self, tensor: &DeviceTensor) -> Result<Reading> {
        let memory = tensor.memory(self)?;
        let bytes = tensor.bytes()?.next_multiple_of(4);
        let ticket = self.device.read(self.memory_id()?, memory, 0, bytes)?;
        Ok(Reading { of: tensor.clone(), ticket })
    }

    /// Makes a tensor of memory that the device has already, such as a page's own buffer: `make` returns its id.
    /// Runs take it as an input like any other device tensor.
    ///
    /// # Errors
    /// Errors of `make` and of the device.
    pub fn adopt(
        &mut self,
        name: &str,
        dtype: DType,
        dims: &[u64],
        make: impl FnOnce(SessionId) -> Result<TensorId>,
    ) -> Result<DeviceTensor> {
        self.reserve(None)?;
        let id = make(self.memory_id()?)?;
        self.held(id, name, dtype, dims)
    }

    /// Asks for memory for a tensor. It is there once the work ahead is done.
    pub(super) fn room(&mut self, name: &str, dtype: DType, dims: &[u64]) -> Result<DeviceTensor> {
        let bytes = Type::tensor(dtype, Shape::of(dims)).bytes()?;
        let (id, ticket) = self.device.tensor(self.memory_id()?, bytes)?;
        self.ahead.making.insert(0, (ticket, Made::Tensor));
        self.held(id, name, dtype, dims)
    }

    fn held(&self, id: TensorId, name: &str, dtype: DType, dims: &[u64]) -> Result<DeviceTensor> {
        let held = Held { device: self.device.clone(), session: self.memory_id()?, id };
        let (held, name, dims) = (Arc::new(held), name.into(), dims.into());
        Ok(DeviceTensor { held, name, dtype, dims })
    }
}

/// Bytes of a state, from a multiple of 4 on, as many as a multiple of 4.
#[cfg(feature = "text")]
pub(in crate::runtime) struct Stretch {
    pub state: u32,
    pub offset: u64,
    pub bytes: u64,
}

/// Copies of states, for the generation of text.
#[cfg(feature = "text")]
impl Session {
    /// Copies states, given by number and bytes, one behind the other into a tensor of the device: into that one, or
    /// into a new one.
    ///
    /// # Errors
    /// Errors of the device.
    pub(in crate::runtime) fn save(
        &mut self,
        states: &[(u32, u64)],
        into: Option<DeviceTensor>,
    ) -> Result<DeviceTensor> {
        let tensor = match into {
            Some(tensor) => tensor,
            None => {
                let bytes: u64 = states.iter().map(|s| s.1).sum();
                self.room("states", DType::Scalar(Scalar::U8), &[bytes])?
            }
        };
        self.copy_states(states, &tensor, true)?;
        Ok(tensor)
    }

    /// Copies states back from where [`save`](Self::save) put them.
    ///
    /// # Errors
    /// Errors of the device.
    pub(in crate::runtime) fn put_back(
        &self,
        states: &[(u32, u64)],
        from: &DeviceTensor,
    ) -> Result<()> {
        self.copy_states(states, from, false)
    }

    /// Copies stretches of states to the state `memory`, one behind the other from byte `at` on, or (not `out`) back.
    ///
    /// # Errors
    /// Errors of the device.
    pub(in crate::runtime) fn move_stretches(
        &self,
        stretches: &[Stretch],
        memory: u32,
        at: u64,
        out: bool,
    ) -> Result<()> {
        self.move_between(stretches, (Memory::State(memory), at), out)
    }

    fn copy_states(&self, states: &[(u32, u64)], tensor: &DeviceTensor, out: bool) -> Result<()> {
        let whole = |&(state, bytes): &(u32, u64)| Stretch { state, offset: 0, bytes };
        let stretches: Vec<Stretch> = states.iter().map(whole).collect();
        self.move_between(&stretches, (tensor.memory(self)?, 0), out)
    }

    /// Copies stretches of states to a place, one behind the other, or (not `out`) back.
    fn move_between(
        &self,
        stretches: &[Stretch],
        (memory, mut at): (Memory, u64),
        out: bool,
    ) -> Result<()> {
        let copy = |&Stretch { state, offset, bytes }: &Stretch| {
            let (own, kept) = ((Memory::State(state), offset), (memory, at));
            at += bytes;
            let (from, to) = if out { (own, kept) } else { (kept, own) };
            Copy { from: from.0, from_offset: from.1, to: to.0, to_offset: to.1, bytes }
        };
        let copies: Vec<Copy> = stretches.iter().map(copy).collect();
        self.device.copy(self.memory_id()?, &copies)
    }
}
