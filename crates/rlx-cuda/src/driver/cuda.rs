//! NVIDIA's driver and its run-time compiler, loaded when a device is asked for: a binary starts without them.
//!
//! Everything is queued in one stream. A list of launches is recorded as a CUDA graph, which a submission launches as
//! one. [`texts`] has where kernels come from.

#![allow(unsafe_code)]

pub mod ranks;
pub mod texts;
mod times;

use super::products::{Addresses, Library};
use super::{At, Driver, DriverInfo, Floats, Launch, Parameter, Product, Work};
use crate::kernels::RING;
use cudarc::driver::sys::{self, CUresult, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaSlice, CudaStream, DriverError,
    PinnedHostSlice,
};
use cudarc::nvrtc::Ptx;
use rlx_core::runtime::device::shared::Lock;
use rlx_core::runtime::device::table::Table;
use rlx_core::{Code, Error, Result};
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::yield_now;
use std::time::{Duration, Instant};
use std::{mem, ptr};
use texts::{Folders, Texts};
use times::Timed;

/// How long a poll waits for a read.
const PATIENCE: Duration = Duration::from_millis(20);

/// What a product's kernel depends on: its floats, its rows, columns and k, whether a bias and a residual are added.
type Shape = (Floats, [u32; 3], [bool; 2]);

/// A CUDA device.
pub struct Cuda {
    info: DriverInfo,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// NVIDIA's library for products, where it is installed.
    library: Option<Library>,
    /// Whether a kernel may start while the one before it runs: since compute capability 9.0.
    overlaps: bool,
    texts: Texts,
    buffers: Lock<Table<u32, CudaSlice<u8>>>,
    functions: Lock<Table<u32, Function>>,
    lists: Lock<Table<u32, List>>,
    /// Products that were queued outside of a recording.
    loaded: Lock<BTreeSet<Shape>>,
    reads: Lock<Table<u32, Reading>>,
    /// Memory of the host that reads have left behind.
    pinned: Lock<Vec<PinnedHostSlice<u8>>>,
    timed: Lock<Table<u32, Timed>>,
    /// The event that times are counted from.
    zero: Lock<Option<CudaEvent>>,
    /// Its end of the group that it is a rank of.
    rank: Option<ranks::Rank>,
}

/// A loaded kernel.
struct Function {
    function: CudaFunction,
    /// Whether it waits for the kernel before it: text for older cards does not, and may not start early.
    waits: bool,
}

/// A recorded list; none for one without launches.
struct List(Option<CudaGraph>);

/// While one thread records a list, some calls that other threads make to the driver end the recording with an error.
/// So recording a list, loading a kernel and opening a device hold this lock alone, and all other calls share it.
static CALLS: RwLock<()> = RwLock::new(());

fn exclusive() -> RwLockWriteGuard<'static, ()> {
    CALLS.write().unwrap_or_else(PoisonError::into_inner)
}

fn shared() -> RwLockReadGuard<'static, ()> {
    CALLS.read().unwrap_or_else(PoisonError::into_inner)
}

/// One reference to each card's context is kept until the process ends. Without it the context ends with the last
/// device, and cuBLASLt, which remembers what it has loaded into a context, may use what is gone.
static KEPT: Mutex<BTreeMap<usize, Arc<CudaContext>>> = Mutex::new(BTreeMap::new());

/// The card's context, and a stream of it. One that is lost makes no stream: it is given back, and another is made.
fn opened(ordinal: usize) -> std::result::Result<(Arc<CudaContext>, Arc<CudaStream>), DriverError> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let open = || {
        let context = CudaContext::new(ordinal)?;
        // SAFETY: all work of a device is in one stream, so that no event is needed to order it.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream()?;
        Ok((context, stream))
    };
    let (context, stream) = match open() {
        Err(_) if kept.remove(&ordinal).is_some() => open()?,
        opened => opened?,
    };
    if let btree_map::Entry::Vacant(entry) = kept.entry(ordinal) {
        entry.insert(CudaContext::new(ordinal)?);
    }
    Ok((context, stream))
}

impl Drop for Cuda {
    fn drop(&mut self) {
        let _calls = shared();
        drop(mem::take(&mut *self.lists.lock()));
        drop(mem::take(&mut *self.timed.lock()));
        *self.zero.lock() = None;
        drop(mem::take(&mut *self.reads.lock()));
        self.pinned.lock().clear();
        drop(mem::take(&mut *self.buffers.lock()));
        drop(mem::take(&mut *self.functions.lock()));
    }
}

// SAFETY: a graph is used by one thread at a time, because it is behind a lock.
unsafe impl Send for List {}

/// Bytes on their way to the host.
struct Reading {
    parts: Vec<PinnedHostSlice<u8>>,
    /// Bytes of each part: its memory may have more.
    sizes: Vec<usize>,
    done: CudaEvent,
}

/// An error of the driver, and whether it ended the context.
fn error(what: &str, e: DriverError) -> Error {
    let code = match e.0 {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => Code::OutOfMemory,
        CUresult::CUDA_ERROR_NO_DEVICE | CUresult::CUDA_ERROR_INVALID_DEVICE => {
            Code::DeviceUnavailable
        }
        CUresult::CUDA_ERROR_INVALID_PTX
        | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        | CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND => Code::Unsupported,
        _ => Code::DeviceLost,
    };
    let name = e.error_string().ok().and_then(|text| text.to_str().ok().map(String::from));
    Error::new(code, format!("{what}: {}", name.unwrap_or_else(|| format!("{:?}", e.0))))
}

fn missing(what: &str, number: u32) -> Error {
    Error::internal(format!("the driver has no {what} {number}"))
}

impl Cuda {
    /// Opens the card of that number.
    ///
    /// # Errors
    /// `DeviceUnavailable` that says what is missing.
    pub fn new(ordinal: usize, folders: Folders) -> Result<Cuda> {
        Cuda::open(ordinal, texts::has_compiler(), folders)
    }

    /// The same as on a machine that has the compiler, or has none.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn open(ordinal: usize, compiler: bool, folders: Folders) -> Result<Cuda> {
        // SAFETY: loading a system library runs its initialisers, which is what a driver is for.
        if !unsafe { sys::is_culib_present() } {
            let what = "NVIDIA's driver library was not found (libcuda.so.1 or nvcuda.dll)";
            let hint = "install it, or use another device: `rlx devices` lists them";
            return Err(Error::new(Code::DeviceUnavailable, what).hint(hint));
        }
        let _calls = exclusive();
        let unavailable = |e: DriverError| {
            let mut e = error("CUDA did not start", e);
            e.code = Code::DeviceUnavailable;
            e
        };
        let count = CudaContext::device_count().map_err(unavailable)?;
        if usize::try_from(count).is_ok_and(|count| count > 0 && ordinal >= count) {
            let what = format!(
                "there is no NVIDIA card {ordinal}: this machine has {count}, numbered from 0"
            );
            return Err(Error::new(Code::DeviceUnavailable, what).hint("name one that is there"));
        }
        let (context, stream) = opened(ordinal).map_err(unavailable)?;
        let (major, minor) = context.compute_capability().map_err(unavailable)?;
        let attribute = |a| context.attribute(a).map_err(unavailable);
        let warp = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?;
        let mut version = 0;
        // SAFETY: the driver writes one number.
        unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(unavailable)?;
        let most = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let has_room = u64::try_from(attribute(most)?).is_ok_and(|bytes| bytes >= RING + (8 << 10));
        let info = DriverInfo {
            name: context.name().map_err(unavailable)?,
            arch: format!("compute_{major}{minor}"),
            driver: format!("CUDA {}.{}", version / 1000, version % 1000 / 10),
            warp: warp as u32,
            memory: context.total_mem().map_err(unavailable)? as u64,
            processors: attribute(
                sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            )? as u32,
            bulk_copies: major >= 9 && has_room,
            // Later cards have other instructions.
            warpgroups: (major, minor) == (9, 0) && has_room,
        };
        let arch = u32::try_from(10 * major + minor).unwrap_or(0);
        let texts = Texts::new(arch, compiler, folders)?;
        let library = Library::new(&stream);
        Ok(Cuda {
            info,
            context,
            stream,
            library,
            overlaps: major >= 9,
            texts,
            buffers: Lock::default(),
            functions: Lock::default(),
            lists: Lock::default(),
            loaded: Lock::default(),
            reads: Lock::default(),
            pinned: Lock::default(),
            timed: Lock::default(),
            zero: Lock::default(),
            rank: None,
        })
    }

    /// Queues a piece of work. `early`: what may start early does.
    fn queue(&self, work: &Work, early: bool) -> Result<()> {
        match work {
            Work::Launch(launch) => self.launch(launch, early),
            Work::Product(product) => self.product(product),
            Work::Exchange(exchange) => self.exchange(exchange),
        }
    }

    fn launch(&self, launch: &Launch, early: bool) -> Result<()> {
        let functions = self.functions.lock();
        let function = functions.get(&launch.function);
        let &Function { ref function, waits } =
            function.ok_or_else(|| missing("function", launch.function))?;
        if launch.shared > 0 {
            use sys::CUfunction_attribute_enum as of;
            // A block gets more than 48 KiB only where they are asked for. A processor's cache and its shared memory
            // are one: as shared memory alone it has room for several such blocks.
            for (attribute, value) in [
                (of::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, launch.shared as i32),
                (of::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100),
            ] {
                function
                    .set_attribute(attribute, value)
                    .map_err(|e| error("a launch's shared memory", e))?;
            }
        }
        let mut values = Vec::with_capacity(launch.arguments.len());
        for argument in &launch.arguments {
            values.push(match *argument {
                Parameter::Place(at) => self.pointer(at, 0)?,
                // A shorter parameter is read from the first bytes, which are the lower ones.
                Parameter::Number(n) => n,
            });
        }
        let mut arguments: Vec<*mut c_void> =
            values.iter_mut().map(|p| ptr::from_mut(p).cast()).collect();
        // SAFETY: zeros are a value of the driver's structures.
        let mut starts: sys::CUlaunchAttribute = unsafe { mem::zeroed() };
        starts.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        starts.value.programmaticStreamSerializationAllowed = 1;
        let [x, y, z] = launch.grid;
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: launch.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: launch.shared,
            hStream: self.stream.cu_stream(),
            attrs: &mut starts,
            numAttrs: (self.overlaps && waits && launch.early && early).into(),
        };
        // SAFETY: a kernel's arguments are those of its text, pointers into buffers that live until the list is dropped
        // and what is queued has run; it accesses what the plan gives it, which tests prove in the emulator. A kernel
        // that starts early waits for the one before it (`wait_for_previous`).
        let queued = unsafe {
            sys::cuLaunchKernelEx(
                &config,
                function.cu_function(),
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        queued.result().map_err(|e| error("a launch", e))?;
        Ok(())
    }

    fn product(&self, p: &Product) -> Result<()> {
        let library = self.library.as_ref();
        let library = library.ok_or_else(|| Error::internal("a product without a library"))?;
        let [rows, columns, k] = [p.rows, p.columns, p.k].map(u64::from);
        let results = p.floats.bytes() * rows * columns;
        let of = |at: Option<At>, bytes| at.map(|at| self.pointer(at, bytes)).transpose();
        library.queue(
            &self.stream,
            &Addresses {
                x: self.pointer(p.x, 2 * rows * k)?,
                w: self.pointer(p.w, 2 * columns * k)?,
                y: self.pointer(p.y, results)?,
                bias: of(p.bias, p.floats.bytes() * columns)?,
                residual: of(p.residual, results)?,
            },
            p,
        )
    }

    /// Queues each product of a new kind, so that the library has loaded its kernel before it is recorded: what it
    /// writes is scratch memory or the arena's, before the first step of a submission.
    fn load_products(&self, work: &[Work]) -> Result<()> {
        for work in work {
            let Work::Product(p) = work else { continue };
            let follows = [p.bias.is_some(), p.residual.is_some()];
            if self.loaded.lock().insert((p.floats, [p.rows, p.columns, p.k], follows)) {
                self.product(p)?;
            }
        }
        Ok(())
    }

    /// The address of a place that so many bytes begin at.
    fn pointer(&self, at: At, bytes: u64) -> Result<u64> {
        use cudarc::driver::DevicePtr;
        let buffers = self.buffers.lock();
        let buffer = buffers.get(&at.buffer).ok_or_else(|| missing("buffer", at.buffer))?;
        if at.offset.checked_add(bytes).is_none_or(|end| end > buffer.num_bytes() as u64) {
            let what =
                format!("{bytes} bytes at {} of a buffer of {}", at.offset, buffer.num_bytes());
            return Err(Error::internal(what));
        }
        Ok(buffer.device_ptr(&self.stream).0 + at.offset)
    }

    /// Memory of the host with so many bytes.
    fn host(&self, bytes: usize) -> Result<PinnedHostSlice<u8>> {
        let mut free = self.pinned.lock();
        if let Some(i) =
            free.iter().position(|p| p.len() >= bytes && p.len() <= 4 * bytes.max(4096))
        {
            return Ok(free.swap_remove(i));
        }
        // SAFETY: bytes that were never written are not read: a read has `sizes` of them, which a copy fills.
        unsafe { self.context.alloc_pinned(bytes.max(4096)) }
            .map_err(|e| error("memory of the host", e))
    }

    fn bind(&self) -> Result<()> {
        self.context.bind_to_thread().map_err(|e| error("CUDA's context", e))
    }
}

impl Driver for Cuda {
    fn info(&self) -> &DriverInfo {
        &self.info
    }

    fn create(&self, buffer: u32, bytes: u64) -> Result<()> {
        let _calls = shared();
        let size = usize::try_from(bytes).unwrap_or(usize::MAX).max(16);
        let made = self.stream.alloc_zeros::<u8>(size);
        let made = made.map_err(|e| error(&format!("{bytes} bytes on {}", self.info.name), e))?;
        self.buffers.lock().insert(buffer, made);
        Ok(())
    }

    fn destroy(&self, buffer: u32) {
        let _calls = shared();
        // It is freed in the order of the stream.
        self.buffers.lock().remove(&buffer);
    }

    fn write(&self, at: At, bytes: &[u8]) -> Result<()> {
        let _calls = shared();
        self.bind()?;
        let pointer = self.pointer(at, bytes.len() as u64)?;
        // SAFETY: the range is within the buffer, and a copy from memory that is not pinned has taken the bytes when
        // it returns.
        let done = unsafe {
            cudarc::driver::result::memcpy_htod_async(pointer, bytes, self.stream.cu_stream())
        };
        done.map_err(|e| error("a write", e))
    }

    fn copy(&self, from: At, to: At, bytes: u64) -> Result<()> {
        let _calls = shared();
        self.bind()?;
        let (from, to) = (self.pointer(from, bytes)?, self.pointer(to, bytes)?);
        // SAFETY: both ranges are within their buffers.
        let done = unsafe {
            cudarc::driver::result::memcpy_dtod_async(
                to,
                from,
                bytes as usize,
                self.stream.cu_stream(),
            )
        };
        done.map_err(|e| error("a copy", e))
    }

    fn read(&self, read: u32, from: &[(At, u64)]) -> Result<()> {
        let _calls = shared();
        self.bind()?;
        let failed = |e| error("a read", e);
        let (mut parts, mut sizes) = (Vec::new(), Vec::new());
        for &(at, bytes) in from {
            let size = bytes as usize;
            let mut part = self.host(size)?;
            let pointer = self.pointer(at, bytes)?;
            let to = part.as_mut_ptr().map_err(failed)?;
            // SAFETY: the memory has at least `size` bytes, and lives until the event is done: `Reading` has both.
            let done = unsafe {
                let to = std::slice::from_raw_parts_mut(to, size);
                cudarc::driver::result::memcpy_dtoh_async(to, pointer, self.stream.cu_stream())
            };
            done.map_err(failed)?;
            parts.push(part);
            sizes.push(size);
        }
        let done = self.stream.record_event(None).map_err(failed)?;
        self.reads.lock().insert(read, Reading { parts, sizes, done });
        Ok(())
    }

    fn poll_read(&self, read: u32) -> Result<Option<Vec<u8>>> {
        let reading = self.reads.lock().remove(&read).ok_or_else(|| missing("read", read))?;
        let failed = |e| error("what was queued before a read", e);
        let begun = Instant::now();
        let is_done = || {
            let _calls = shared();
            reading.done.try_is_complete().map_err(failed)
        };
        while !is_done()? {
            if begun.elapsed() > PATIENCE {
                self.reads.lock().insert(read, reading);
                return Ok(None);
            }
            yield_now();
        }
        let _calls = shared();
        let mut bytes = Vec::with_capacity(reading.sizes.iter().sum());
        for (part, size) in reading.parts.iter().zip(&reading.sizes) {
            bytes.extend_from_slice(&part.as_slice().map_err(failed)?[..*size]);
        }
        let mut free = self.pinned.lock();
        free.extend(reading.parts);
        // A few are enough for what is in flight.
        free.truncate(16);
        Ok(Some(bytes))
    }

    fn has_products(&self) -> bool {
        self.library.is_some()
    }

    fn compile(&self, function: u32, source: &str, entry: &str) -> Result<()> {
        let text = self.texts.text(source, entry)?;
        let waits = text.arch >= 90;
        let failed = |e| error(&format!("the kernel {entry}"), e);
        let _calls = exclusive();
        let module = self.context.load_module(Ptx::from_src(text.ptx)).map_err(failed)?;
        let loaded = module.load_function(entry).map_err(failed)?;
        self.functions.lock().insert(function, Function { function: loaded, waits });
        Ok(())
    }

    fn fills(&self) -> bool {
        self.texts.fills()
    }

    fn fill(&self, source: &str, entry: &str) -> Result<()> {
        self.texts.fill(source, entry)
    }

    fn forget(&self, function: u32) {
        let _calls = shared();
        self.functions.lock().remove(&function);
    }

    fn record(&self, list: u32, work: &[Work]) -> Result<()> {
        let failed = |e| error("recording a list", e);
        let exchanges = work.iter().any(|work| matches!(work, Work::Exchange(_)));
        let rank = self.rank.as_ref().filter(|_| exchanges);
        let mut graph = None;
        let mut capture = || {
            self.bind()?;
            self.load_products(work)?;
            self.stream
                .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
                .map_err(failed)?;
            let queued = work.iter().try_for_each(|work| self.queue(work, true));
            // A capture ends even if something failed.
            let ended = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
            queued?;
            graph = ended.map_err(failed)?;
            Ok(())
        };
        match rank {
            _ if work.is_empty() => {}
            Some(rank) => rank.together(capture)?,
            None => {
                let _calls = exclusive();
                capture()?;
            }
        }
        self.lists.lock().insert(list, List(graph));
        Ok(())
    }

    fn submit(&self, list: u32) -> Result<()> {
        let _calls = shared();
        let lists = self.lists.lock();
        let List(graph) = lists.get(&list).ok_or_else(|| missing("list", list))?;
        graph.as_ref().map_or(Ok(()), CudaGraph::launch).map_err(|e| error("a submission", e))
    }

    fn drop_list(&self, list: u32) {
        let _calls = shared();
        // The driver keeps a graph until its launches have run.
        self.lists.lock().remove(&list);
    }

    fn submit_timed(&self, times: u32, work: &[Work]) -> Result<()> {
        self.queue_timed(times, work)
    }

    fn poll_times(&self, times: u32) -> Result<Option<Vec<[u64; 2]>>> {
        self.times(times)
    }
}
