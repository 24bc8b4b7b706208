//! Memory of a session: a tensor of the backend, or bytes of the host that the next run uploads.

use super::{Argument, Backend};
use crate::error::{Code, Error, Result};
use crate::types::Type;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

/// Zeroed bytes.
pub(super) fn zeros(bytes: u64) -> Result<Vec<u8>> {
    let none = || Error::new(Code::OutOfMemory, format!("no memory for {bytes} bytes"));
    let len = usize::try_from(bytes).map_err(|_| none())?;
    let mut out = Vec::new();
    out.try_reserve_exact(len).map_err(|_| none())?;
    out.resize(len, 0);
    Ok(out)
}

/// Where a memory's bytes are.
pub(super) enum Held<T> {
    /// On the host.
    Host(Vec<u8>),
    /// On the device, as a tensor of this type.
    Device(Arc<T>, Type),
    /// Nowhere: the run that they were given to failed.
    Lost,
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        match self {
            Held::Host(bytes) => Held::Host(bytes.clone()),
            Held::Device(tensor, ty) => Held::Device(tensor.clone(), ty.clone()),
            Held::Lost => Held::Lost,
        }
    }
}

impl<T> Held<T> {
    /// A tensor that a run has made.
    pub(super) fn device(tensor: T, ty: &Type) -> Self {
        Held::Device(Arc::new(tensor), ty.clone())
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Held::Host(bytes) => bytes.len() as u64,
            Held::Device(_, ty) => ty.bytes().unwrap_or(0),
            Held::Lost => 0,
        }
    }

    /// The bytes on the host, to change a part of them: waits for runs that make them.
    pub(super) fn on_host<B: Backend<Tensor = T>>(&mut self, backend: &B) -> Result<&mut Vec<u8>> {
        if let Held::Device(tensor, _) = self {
            let mut read = backend.read(tensor)?;
            let bytes = backend.poll(&mut read, true)?;
            *self = Held::Host(
                bytes.ok_or_else(|| Error::internal("a read that waited has no bytes"))?,
            );
        }
        match self {
            Held::Host(bytes) => Ok(bytes),
            _ => Err(super::lost()),
        }
    }

    /// The tensor, uploaded if it is not there or of another type.
    pub(super) fn tensor<B: Backend<Tensor = T>>(
        &mut self,
        backend: &B,
        ty: &Type,
    ) -> Result<Arc<T>> {
        if !matches!(self, Held::Device(_, own) if own == ty) {
            let bytes = self.on_host(backend)?;
            let size = usize::try_from(ty.bytes()?).unwrap_or(usize::MAX);
            let bytes = bytes.get(..size).ok_or_else(|| {
                Error::internal(format!("{} bytes are too few for {ty}", bytes.len()))
            })?;
            *self = Held::Device(Arc::new(backend.upload(ty, bytes)?), ty.clone());
        }
        match self {
            Held::Device(tensor, _) => Ok(tensor.clone()),
            _ => Err(super::lost()),
        }
    }

    /// The tensor for a run that makes its next version; the memory is lost until that is put back.
    pub(super) fn give<B: Backend<Tensor = T>>(
        &mut self,
        backend: &B,
        ty: &Type,
    ) -> Result<Argument<T>> {
        let tensor = self.tensor(backend, ty)?;
        *self = Held::Lost;
        Ok(match Arc::try_unwrap(tensor) {
            Ok(own) => Argument::Given(own),
            Err(shared) => Argument::Shared(shared),
        })
    }

    /// Begins to read a range of its bytes; of a last word that is not whole, the bytes that are there.
    pub(super) fn read<B: Backend<Tensor = T>>(
        &self,
        backend: &B,
        range: Range<u64>,
    ) -> Result<Part<B::Read>> {
        let range = range.start as usize..range.end as usize;
        match self {
            Held::Host(bytes) => {
                let range = range.start.min(bytes.len())..range.end.min(bytes.len());
                Ok(Part::There(bytes[range].to_vec()))
            }
            Held::Device(tensor, _) => Ok(Part::Coming(backend.read(tensor)?, range)),
            Held::Lost => Err(super::lost()),
        }
    }
}

/// Bytes that a ticket waits for.
pub(super) enum Part<R> {
    /// They are there.
    There(Vec<u8>),
    /// A range of a read.
    Coming(R, Range<usize>),
}

impl<R> Part<R> {
    /// Whether the bytes are there.
    pub(super) fn poll<B: Backend<Read = R>>(&mut self, backend: &B) -> Result<bool> {
        if let Part::Coming(read, range) = self {
            let Some(bytes) = backend.poll(read, false)? else { return Ok(false) };
            let range = range.start.min(bytes.len())..range.end.min(bytes.len());
            *self = Part::There(bytes[range].to_vec());
        }
        Ok(true)
    }

    /// The bytes; none that are not there yet.
    pub(super) fn bytes(self) -> Vec<u8> {
        match self {
            Part::There(bytes) => bytes,
            Part::Coming(..) => Vec::new(),
        }
    }
}
