//! What HIP gives: each is freed when it is dropped. Who drops what the card may still use waits for the stream first.

#![allow(unsafe_code)]

use super::api::{self, Api, Handle, NOT_READY, OUT_OF_MEMORY, SUCCESS, Status, UNAVAILABLE};
use rlx_core::{Code, Error, Result};
use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

/// A device with its stream, in which everything is queued.
pub(super) struct Card {
    pub api: Arc<Api>,
    number: c_int,
    stream: Owned,
}

/// What a kernel is given.
pub enum Argument<'a> {
    /// A place in memory: bytes from its start.
    Place(&'a Memory, u64),
    /// A number, whose lower bits are the parameter's.
    Number(u64),
}

/// Something of HIP's, with the function that frees it.
struct Owned {
    api: Arc<Api>,
    handle: Handle,
    free: fn(&Api, Handle) -> Status,
}

// SAFETY: a handle may be used by any thread: HIP's functions may be called by several at once, and what changes what a
// handle stands for (recording, freeing) has `&mut` or is done by its owner.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // Where the device is lost, there is nothing to free.
        let _ = (self.free)(&self.api, self.handle);
    }
}

/// Memory of the card.
pub(super) struct Memory {
    owned: Owned,
    bytes: u64,
}

/// Memory of the host that the card copies from and to.
pub(super) struct Pinned {
    owned: Owned,
    bytes: usize,
}

/// A point in the stream.
pub(super) struct Event(Owned);

/// A loaded kernel.
pub(super) struct Function {
    /// The function is in it.
    _module: Owned,
    handle: Handle,
}

// SAFETY: as for `Owned`.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// A recorded list.
pub(super) struct Executable(Owned);

/// The error of a call, and whether it ended the device's work.
pub(super) fn error(api: &Api, what: &str, status: Status) -> Error {
    let code = match status {
        OUT_OF_MEMORY => Code::OutOfMemory,
        status if UNAVAILABLE.contains(&status) => Code::DeviceUnavailable,
        _ => Code::DeviceLost,
    };
    Error::new(code, format!("{what}: {}", api.runtime.text(status)))
}

fn checked(api: &Api, what: &str, status: Status) -> Result<()> {
    if status == SUCCESS { Ok(()) } else { Err(error(api, what, status)) }
}

impl Memory {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Pinned {
    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its first bytes, which a copy has filled.
    ///
    /// # Errors
    /// `Internal` for more than it has.
    pub fn filled(&self, bytes: usize) -> Result<&[u8]> {
        let short = || Error::internal("more bytes than pinned memory has");
        let bytes = (bytes <= self.bytes).then_some(bytes).ok_or_else(short)?;
        // SAFETY: the memory has them: it was zeroed when it was made, and no copy is under way.
        Ok(unsafe { std::slice::from_raw_parts(self.owned.handle.cast(), bytes) })
    }

    /// Puts bytes at its beginning, which no copy reads at this time.
    ///
    /// # Errors
    /// `Internal` for more than it has.
    pub fn fill(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.bytes {
            return Err(Error::internal("more bytes than pinned memory has"));
        }
        // SAFETY: the memory has as many, and is this value's alone.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.owned.handle.cast(), bytes.len()) };
        Ok(())
    }
}

impl Card {
    /// The device of that number.
    ///
    /// # Errors
    /// `DeviceUnavailable`.
    pub fn open(api: Arc<Api>, number: usize) -> Result<Card> {
        let runtime = &api.runtime;
        let starts = |status| {
            let what = match status {
                // No device, or none of that number.
                100 | 101 => "ROCm finds no AMD card",
                _ => "ROCm did not start",
            };
            checked(&api, what, status).map_err(|mut e| {
                e.code = Code::DeviceUnavailable;
                e
            })
        };
        let mut count = 0;
        // SAFETY: it writes nothing.
        starts(unsafe { (runtime.init)(0) })?;
        // SAFETY: it writes a number.
        starts(unsafe { (runtime.device_count)(&mut count) })?;
        let absent = || {
            Error::new(
                Code::DeviceUnavailable,
                format!("ROCm has {count} devices, none is {number}"),
            )
        };
        let number = c_int::try_from(number).ok().filter(|n| *n < count).ok_or_else(absent)?;
        // SAFETY: it chooses a device for this thread.
        starts(unsafe { (runtime.set_device)(number) })?;
        let mut stream = ptr::null_mut();
        // SAFETY: it writes a handle.
        starts(unsafe { (runtime.create_stream)(&mut stream, api::NON_BLOCKING) })?;
        // SAFETY: `destroy_stream` gets what `create_stream` made, once.
        let free = |api: &Api, h: Handle| unsafe { (api.runtime.destroy_stream)(h) };
        let stream = Owned { api: Arc::clone(&api), handle: stream, free };
        Ok(Card { api, number, stream })
    }

    /// Name, bytes of memory, and the runtime's version.
    ///
    /// # Errors
    /// `DeviceUnavailable`.
    pub fn describe(&self) -> Result<(String, u64, c_int)> {
        let runtime = &self.api.runtime;
        let (mut device, mut name, mut memory, mut version) = (0, [0u8; 256], 0, 0);
        // SAFETY: each writes a number, or a text that ends within what it is told.
        let done = unsafe {
            [
                (runtime.device)(&mut device, self.number),
                (runtime.device_name)(name.as_mut_ptr().cast(), 255, device),
                (runtime.total_memory)(&mut memory, device),
                (runtime.version)(&mut version),
            ]
        };
        done.into_iter().try_for_each(|status| self.checked("ROCm's device", status))?;
        let end = name.iter().position(|b| *b == 0).unwrap_or(0);
        Ok((String::from_utf8_lossy(&name[..end]).into(), memory as u64, version))
    }

    /// The bytes of its properties.
    ///
    /// # Errors
    /// `DeviceUnavailable`.
    pub fn properties(&self) -> Result<Vec<u8>> {
        let got = self.api.properties(self.number);
        got.map_err(|status| error(&self.api, "ROCm's device", status))
    }

    fn checked(&self, what: &str, status: Status) -> Result<()> {
        checked(&self.api, what, status)
    }

    fn own(&self, handle: Handle, free: fn(&Api, Handle) -> Status) -> Owned {
        Owned { api: Arc::clone(&self.api), handle, free }
    }

    /// Makes it the device of this thread: every function below comes here first.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn bind(&self) -> Result<()> {
        // SAFETY: it writes nothing.
        self.checked("ROCm's device", unsafe { (self.api.runtime.set_device)(self.number) })
    }

    /// Waits for all that is queued.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn synchronize(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: the stream lives as long as the card.
        self.checked("what was queued", unsafe {
            (self.api.runtime.synchronize)(self.stream.handle)
        })
    }

    /// Memory of zeros.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn memory(&self, bytes: u64) -> Result<Memory> {
        self.bind()?;
        let what = format!("{bytes} bytes of the card");
        let size = usize::try_from(bytes)
            .map_err(|_| Error::new(Code::OutOfMemory, what.clone()))?
            .max(16);
        let mut handle = ptr::null_mut();
        // SAFETY: it writes a handle.
        self.checked(&what, unsafe { (self.api.runtime.allocate)(&mut handle, size) })?;
        // SAFETY: `free` gets what `allocate` made, once.
        let owned = self.own(handle, |api, h| unsafe { (api.runtime.free)(h) });
        // SAFETY: the memory has as many bytes.
        let set = unsafe { (self.api.runtime.set_bytes)(handle, 0, size, self.stream.handle) };
        self.checked(&what, set)?;
        Ok(Memory { owned, bytes: size as u64 })
    }

    /// Zeroed memory of the host.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn pinned(&self, bytes: usize) -> Result<Pinned> {
        self.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: it writes a handle.
        let made = unsafe { (self.api.runtime.allocate_host)(&mut handle, bytes, api::PINNED) };
        self.checked("memory of the host", made)?;
        // SAFETY: `free_host` gets what `allocate_host` made, once; the memory has as many bytes.
        let owned = self.own(handle, |api, h| unsafe { (api.runtime.free_host)(h) });
        // SAFETY: as above.
        unsafe { ptr::write_bytes(handle.cast::<u8>(), 0, bytes) };
        Ok(Pinned { owned, bytes })
    }

    /// An event that was never recorded.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn event(&self) -> Result<Event> {
        self.event_with(api::WITHOUT_TIME)
    }

    /// The same with the time at which it passes.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn timed_event(&self) -> Result<Event> {
        self.event_with(api::WITH_TIME)
    }

    fn event_with(&self, flags: c_uint) -> Result<Event> {
        self.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: it writes a handle.
        let made = unsafe { (self.api.runtime.create_event)(&mut handle, flags) };
        self.checked("an event", made)?;
        // SAFETY: `destroy_event` gets what `create_event` made, once.
        Ok(Event(self.own(handle, |api, h| unsafe { (api.runtime.destroy_event)(h) })))
    }

    /// Puts an event behind all that is queued.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn mark(&self, event: &mut Event) -> Result<()> {
        self.bind()?;
        // SAFETY: event and stream live.
        let done = unsafe { (self.api.runtime.record_event)(event.0.handle, self.stream.handle) };
        self.checked("an event", done)
    }

    /// Whether everything before an event has run.
    ///
    /// # Errors
    /// `DeviceLost`, and errors of what ran.
    pub fn has_passed(&self, event: &Event) -> Result<bool> {
        self.bind()?;
        // SAFETY: the event lives.
        match unsafe { (self.api.runtime.query_event)(event.0.handle) } {
            NOT_READY => Ok(false),
            status => self.checked("what was queued before an event", status).map(|()| true),
        }
    }

    /// Nanoseconds between two events with times, which have passed.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn nanoseconds(&self, from: &Event, to: &Event) -> Result<u64> {
        self.bind()?;
        let mut ms = 0.0f32;
        // SAFETY: both events live; it writes a number.
        let got = unsafe { (self.api.runtime.elapsed)(&mut ms, from.0.handle, to.0.handle) };
        self.checked("times of events", got)?;
        Ok((f64::from(ms) * 1e6) as u64)
    }

    /// Waits until everything before an event has run.
    ///
    /// # Errors
    /// As [`has_passed`](Self::has_passed).
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        self.bind()?;
        // SAFETY: the event lives.
        let done = unsafe { (self.api.runtime.wait_for_event)(event.0.handle) };
        self.checked("what was queued before an event", done)
    }

    /// The stream, for a library that queues in it.
    pub fn stream(&self) -> Handle {
        self.stream.handle
    }

    /// The address of a place that so many bytes begin at.
    ///
    /// # Errors
    /// `Internal` outside of the memory.
    pub fn address(&self, memory: &Memory, offset: u64, bytes: u64) -> Result<Handle> {
        if offset.checked_add(bytes).is_none_or(|end| end > memory.bytes) {
            let what = format!("{bytes} bytes at {offset} of a buffer of {}", memory.bytes);
            return Err(Error::internal(what));
        }
        Ok(memory.owned.handle.wrapping_byte_add(offset as usize))
    }

    fn copy(&self, to: Handle, from: *const c_void, bytes: usize, kind: c_int) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: callers have checked both ranges, and keep them until the copy has run.
        let done = unsafe { (self.api.runtime.copy)(to, from, bytes, kind, self.stream.handle) };
        self.checked("a copy", done)
    }

    /// Queues a copy of the first bytes of `from`, which the caller leaves alone until an event behind it has passed.
    ///
    /// # Errors
    /// `DeviceLost`; `Internal` outside of the memory.
    pub fn write(&self, to: (&Memory, u64), from: &Pinned, bytes: usize) -> Result<()> {
        if bytes > from.bytes {
            return Err(Error::internal("more bytes than pinned memory has"));
        }
        let to = self.address(to.0, to.1, bytes as u64)?;
        self.copy(to, from.owned.handle, bytes, api::TO_DEVICE)
    }

    /// Queues a copy to the beginning of `to`, which the caller leaves alone until an event behind it has passed.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn read(&self, to: &Pinned, from: (&Memory, u64), bytes: usize) -> Result<()> {
        if bytes > to.bytes {
            return Err(Error::internal("more bytes than pinned memory has"));
        }
        let from = self.address(from.0, from.1, bytes as u64)?;
        self.copy(to.owned.handle, from, bytes, api::TO_HOST)
    }

    /// Queues a copy between places of the card.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn move_bytes(&self, to: (&Memory, u64), from: (&Memory, u64), bytes: u64) -> Result<()> {
        let (to, from) = (self.address(to.0, to.1, bytes)?, self.address(from.0, from.1, bytes)?);
        self.copy(to, from, bytes as usize, api::BETWEEN)
    }

    /// Loads code for its function of that name.
    ///
    /// # Errors
    /// `DeviceLost`; `Internal` for code without it.
    pub fn load(&self, code: &[u8], name: &str) -> Result<Function> {
        self.bind()?;
        let what = format!("the kernel {name}");
        let entry = CString::new(name).map_err(|_| Error::internal("a name with a zero in it"))?;
        let (mut module, mut handle) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the code was made by the compiler for this card, and is read before the call returns.
        let made = unsafe { (self.api.runtime.load_module)(&mut module, code.as_ptr().cast()) };
        self.checked(&what, made)?;
        // SAFETY: `unload_module` gets what `load_module` made, once.
        let module = self.own(module, |api, h| unsafe { (api.runtime.unload_module)(h) });
        // SAFETY: it writes a handle.
        let found =
            unsafe { (self.api.runtime.function)(&mut handle, module.handle, entry.as_ptr()) };
        self.checked(&what, found)?;
        Ok(Function { _module: module, handle })
    }

    /// Queues a launch whose arguments are places in memory.
    ///
    /// # Errors
    /// `DeviceLost`; `Internal` outside of the memory.
    pub fn launch(
        &self,
        function: &Function,
        [x, y, z]: [u32; 3],
        threads: u32,
        arguments: &[Argument<'_>],
    ) -> Result<()> {
        let value = |argument: &Argument<'_>| match argument {
            Argument::Place(memory, offset) => Ok(self.address(memory, *offset, 0)? as u64),
            Argument::Number(n) => Ok(*n),
        };
        let mut values: Vec<u64> = arguments.iter().map(value).collect::<Result<_>>()?;
        // The list ends with null, so that who reads it can see how many there are.
        let mut list: Vec<Handle> = values.iter_mut().map(|p| ptr::from_mut(p).cast()).collect();
        list.push(ptr::null_mut());
        self.bind()?;
        // SAFETY: a kernel's arguments are as many pointers and numbers as its text has, in 8 bytes each; pointers are
        // into memory that lives until the list is dropped and what is queued has run; a kernel accesses what the plan
        // gives it, which tests prove in the emulator.
        let queued = unsafe {
            (self.api.runtime.launch)(
                function.handle,
                x,
                y,
                z,
                threads,
                1,
                1,
                0,
                self.stream.handle,
                list.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.checked("a launch", queued)
    }

    /// Records what `queue` queues, instead of running it.
    ///
    /// # Errors
    /// Those of `queue`; `DeviceLost`.
    pub fn record(&self, queue: impl FnOnce() -> Result<()>) -> Result<Executable> {
        let runtime = &self.api.runtime;
        self.bind()?;
        // SAFETY: the stream lives.
        let begun = unsafe { (runtime.begin_capture)(self.stream.handle, api::RELAXED) };
        self.checked("recording a list", begun)?;
        let queued = queue();
        let mut graph = ptr::null_mut();
        // A capture ends even if something failed.
        // SAFETY: it writes a handle.
        let ended = unsafe { (runtime.end_capture)(self.stream.handle, &mut graph) };
        // SAFETY: `destroy_graph` gets what `end_capture` made, once.
        let free = |api: &Api, h: Handle| unsafe { (api.runtime.destroy_graph)(h) };
        let graph = (!graph.is_null()).then(|| self.own(graph, free));
        queued?;
        self.checked("recording a list", ended)?;
        let graph = graph.ok_or_else(|| Error::internal("a recording without a graph"))?;
        let mut handle = ptr::null_mut();
        // SAFETY: it writes a handle, and nothing of what went wrong, for which it is given no memory.
        let made = unsafe {
            (runtime.instantiate)(&mut handle, graph.handle, ptr::null_mut(), ptr::null_mut(), 0)
        };
        self.checked("recording a list", made)?;
        // SAFETY: `destroy_executable` gets what `instantiate` made, once.
        let free = |api: &Api, h: Handle| unsafe { (api.runtime.destroy_executable)(h) };
        Ok(Executable(self.own(handle, free)))
    }

    /// Queues a recorded list.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn submit(&self, list: &Executable) -> Result<()> {
        self.bind()?;
        // SAFETY: the list lives until what is queued has run: who drops it waits.
        let queued = unsafe { (self.api.runtime.launch_graph)(list.0.handle, self.stream.handle) };
        self.checked("a submission", queued)
    }
}
