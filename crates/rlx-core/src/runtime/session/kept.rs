//! Tensors that stay on the device: outputs of one run that are inputs of another.

use super::{Made, Session, TensorRef};
use crate::error::{Error, Result};
use crate::runtime::device::{AnyId, Device, Memory, SessionId, TensorId, Ticket};
use crate::types::{DType, Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

/// A tensor in the memory of a session's device. Clones are the same memory, which is freed with the last of
/// them, or with the session.
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
    /// The name of the output that it was.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes, outermost first; none of a scalar.
    pub fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// Where its device has it.
    pub fn place(&self) -> (SessionId, TensorId) {
        (self.held.session, self.held.id)
    }

    /// Its memory, if it is one of this session.
    pub(super) fn memory(&self, session: &Session) -> Result<Memory> {
        let same = session.memory.is_some_and(|m| m.0 == self.held.session);
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

/// A tensor that a run is given: elements of the host, or what the device has.
#[derive(Clone, Copy)]
pub enum Given<'a> {
    /// Elements that the host has.
    Host(TensorRef<'a>),
    /// A tensor that stayed on the session's device.
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

/// A tensor on its way from the device. Poll it with its session.
pub struct Reading {
    of: DeviceTensor,
    ticket: Ticket,
}

impl Reading {
    /// Answers once, with the elements as they were when everything before had run.
    ///
    /// # Errors
    /// What the device meets.
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
    /// Starts to read a tensor that stayed on the device.
    ///
    /// # Errors
    /// `Usage` for a tensor of another session; what the device refuses.
    pub fn read(&self, tensor: &DeviceTensor) -> Result<Reading> {
        let memory = tensor.memory(self)?;
        let bytes = tensor.bytes()?.next_multiple_of(4);
        let ticket = self.device.read(self.memory_id()?, memory, 0, bytes)?;
        Ok(Reading { of: tensor.clone(), ticket })
    }

    /// Takes memory of the device that `make` says to be a tensor: a page's own buffer. It is an input of runs as
    /// one that stayed is.
    ///
    /// # Errors
    /// As `make`; what the device refuses.
    pub fn adopt(
        &mut self,
        name: &str,
        dtype: DType,
        dims: &[u64],
        make: impl FnOnce(SessionId) -> Result<TensorId>,
    ) -> Result<DeviceTensor> {
        self.reserve(0)?;
        let id = make(self.memory_id()?)?;
        self.held(id, name, dtype, dims)
    }

    /// Memory for a tensor, which is there when what is ahead has been done.
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
