//! Tensors on a device.

use super::api::{
    Args, BufferArgs, FromHostArgs, Handle, Layout, ONLY_DURING_CALL, SizeArgs, TILED,
};
use super::api::{TiledLayout, ToHostArgs};
use super::client::{Client, Inner};
use super::{Event, api};
use rlx_core::{Code, Error, Result};
use std::sync::Arc;

/// An element type, by its number in `PJRT_Buffer_Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)] // a type is its name
pub enum Element {
    Bool = 1,
    I8 = 2,
    I16 = 3,
    I32 = 4,
    I64 = 5,
    U8 = 6,
    U16 = 7,
    U32 = 8,
    U64 = 9,
    F16 = 10,
    F32 = 11,
    F64 = 12,
    Bf16 = 13,
    C64 = 14,
}

impl Element {
    /// Bytes of one.
    pub fn bytes(self) -> usize {
        match self {
            Element::Bool | Element::I8 | Element::U8 => 1,
            Element::I16 | Element::U16 | Element::F16 | Element::Bf16 => 2,
            Element::I32 | Element::U32 | Element::F32 => 4,
            Element::I64 | Element::U64 | Element::F64 | Element::C64 => 8,
        }
    }
}

/// A tensor on the device.
#[derive(Clone)]
pub struct Buffer(Arc<Owned>);

struct Owned {
    client: Arc<Inner>,
    handle: Handle,
}

// SAFETY: buffers are thread-safe in PJRT.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        let plugin = &self.client.plugin;
        let args = BufferArgs { buffer: self.handle, ..BufferArgs::new() };
        plugin.destroy(plugin.api().buffer_destroy, "Buffer_Destroy", args);
    }
}

impl Client {
    /// Copies a row-major tensor to the first device.
    ///
    /// # Errors
    /// As [`upload_to`](Self::upload_to).
    pub fn upload(&self, element: Element, dims: &[u64], bytes: &[u8]) -> Result<Buffer> {
        self.upload_to(0, element, dims, bytes)
    }

    /// Copies a row-major tensor to the device of that number.
    ///
    /// # Errors
    /// `DeviceUnavailable` for a number that no device has; `Internal` for another number of bytes than the sizes say;
    /// errors of the plugin.
    pub fn upload_to(
        &self,
        device: usize,
        element: Element,
        dims: &[u64],
        bytes: &[u8],
    ) -> Result<Buffer> {
        let need = dims.iter().try_fold(element.bytes() as u64, |n, &d| n.checked_mul(d));
        let sizes = dims.iter().map(|&d| i64::try_from(d).ok()).collect::<Option<Vec<i64>>>();
        let Some(sizes) = sizes.filter(|_| need == Some(bytes.len() as u64)) else {
            let what = format!("{} bytes for a tensor of {dims:?} {element:?}", bytes.len());
            return Err(Error::internal(what));
        };
        let inner = self.inner();
        let mut args = FromHostArgs {
            client: inner.handle,
            data: bytes.as_ptr().cast(),
            element: element as i32,
            dims: sizes.as_ptr(),
            rank: sizes.len(),
            semantics: ONLY_DURING_CALL,
            device: inner.device(device)?,
            ..FromHostArgs::new()
        };
        let upload = inner.plugin.api().client_buffer_from_host_buffer;
        inner.plugin.call(upload, "Client_BufferFromHostBuffer", &mut args)?;
        drop(Event::new(&inner.plugin, args.done));
        Ok(Buffer::new(inner.clone(), args.buffer))
    }
}

impl Buffer {
    pub(super) fn new(client: Arc<Inner>, handle: Handle) -> Buffer {
        Buffer(Arc::new(Owned { client, handle }))
    }

    pub(super) fn handle(&self) -> Handle {
        self.0.handle
    }

    /// Bytes that it takes on the device, which may pad it.
    ///
    /// # Errors
    /// Errors of the plugin.
    pub fn device_bytes(&self) -> Result<u64> {
        let plugin = &self.0.client.plugin;
        let mut args = SizeArgs { buffer: self.0.handle, ..SizeArgs::new() };
        let size = plugin.api().buffer_on_device_size_in_bytes;
        plugin.call(size, "Buffer_OnDeviceSizeInBytes", &mut args)?;
        Ok(args.bytes as u64)
    }

    /// Begins a copy of a tensor of this rank and so many bytes to the host, row-major.
    ///
    /// # Errors
    /// `OutOfMemory` where the host has too little; errors of the plugin.
    pub fn read(&self, rank: usize, bytes: usize) -> Result<Read> {
        let mut to = Vec::new();
        to.try_reserve_exact(bytes).map_err(|_| {
            Error::new(Code::OutOfMemory, format!("{bytes} bytes to read a tensor into"))
        })?;
        to.resize(bytes, 0);
        let order: Vec<i64> = (0..rank as i64).rev().collect();
        let tiled =
            TiledLayout { minor_to_major: order.as_ptr(), rank: order.len(), ..TiledLayout::new() };
        let mut layout = Layout { tiled, kind: TILED, ..Layout::new() };
        let plugin = &self.0.client.plugin;
        let to_host = plugin.api().buffer_to_host_buffer;
        // First the size, so that the plugin writes no more than there is room for.
        let mut args =
            ToHostArgs { source: self.0.handle, layout: &mut layout, ..ToHostArgs::new() };
        plugin.call(to_host, "Buffer_ToHostBuffer", &mut args)?;
        drop(Event::new(plugin, args.event));
        if args.bytes != bytes {
            let what = format!("a tensor of {} bytes is read as {bytes}", args.bytes);
            return Err(Error::internal(what));
        }
        let mut args = ToHostArgs {
            source: self.0.handle,
            layout: &mut layout,
            to: to.as_mut_ptr().cast(),
            bytes,
            ..api::ToHostArgs::new()
        };
        plugin.call(to_host, "Buffer_ToHostBuffer", &mut args)?;
        Ok(Read { event: Event::new(plugin, args.event), bytes: to, _from: self.clone() })
    }
}

/// A copy to the host on its way.
pub struct Read {
    event: Option<Event>,
    /// Never moved to other memory while the event is there.
    bytes: Vec<u8>,
    _from: Buffer,
}

impl Read {
    /// The bytes, once they are there; they are given once.
    ///
    /// # Errors
    /// What made the copy, or the computation before it, fail.
    pub fn poll(&mut self) -> Result<Option<Vec<u8>>> {
        match &self.event {
            Some(event) if !event.is_ready()? => Ok(None),
            _ => Ok(Some(self.take())),
        }
    }

    /// Waits until the bytes are there for [`poll`](Self::poll).
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn wait(&self) -> Result<()> {
        self.event.as_ref().map_or(Ok(()), Event::wait)
    }

    fn take(&mut self) -> Vec<u8> {
        self.event = None;
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        // The plugin writes to these bytes until then.
        if let Some(event) = &self.event {
            let _ = event.wait();
        }
    }
}
