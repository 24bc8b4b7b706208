//! Cards as ranks of a group, which exchange tensors by NCCL: the library is loaded when a group is asked for.
//!
//! <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html>. Every rank is called from a thread of its own,
//! because calls of NCCL may wait for the same call of the other ranks.

use super::{Cuda, exclusive, texts::Folders};
use crate::driver::{Exchange, Exchanged, no_group};
use cudarc::driver::sys;
use libloading::Library;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A communicator: one rank's end of a group.
type Handle = *mut c_void;
type InitAll = unsafe extern "C" fn(*mut Handle, c_int, *const c_int) -> c_int;
type Reduce = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    c_int,
    c_int,
    Handle,
    sys::CUstream,
) -> c_int;
type Gather =
    unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, Handle, sys::CUstream) -> c_int;
type Abort = unsafe extern "C" fn(Handle) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// Numbers of `ncclDataType_t` and `ncclRedOp_t`.
const UINT8: c_int = 1;
const FLOAT16: c_int = 6;
const FLOAT32: c_int = 7;
const BFLOAT16: c_int = 9;
const SUM: c_int = 0;

/// What must stand in the environment before NCCL starts: no multicast over NVLink, which hosts of several tenants do
/// not lend out; all connections are made when a group is, and no buffer is registered while a list is recorded,
/// because ranks record theirs one after the other.
pub const ENVIRONMENT: [(&str, &str); 3] =
    [("NCCL_NVLS_ENABLE", "0"), ("NCCL_RUNTIME_CONNECT", "0"), ("NCCL_GRAPH_REGISTER", "0")];

/// How long ranks wait for each other where they record a list.
const PATIENCE: Duration = Duration::from_secs(120);

/// NCCL's functions.
struct Nccl {
    init_all: InitAll,
    all_reduce: Reduce,
    all_gather: Gather,
    abort: Abort,
    error_string: ErrorString,
    /// What has them; it stays loaded, because a library with threads of its own cannot go.
    _library: Library,
}

/// Names under which the library is looked for: `RLX_NCCL`, if that is set, else as systems have it.
fn names() -> Vec<PathBuf> {
    match env::var_os("RLX_NCCL") {
        Some(path) => vec![path.into()],
        None => ["libnccl.so.2", "libnccl.so"].map(PathBuf::from).into(),
    }
}

impl Nccl {
    fn load() -> Result<Nccl> {
        for (name, value) in ENVIRONMENT {
            if env::var(name).as_deref() != Ok(value) {
                let what = format!("a group of cards needs {name}={value} in the environment");
                return Err(Error::new(Code::DeviceUnavailable, what)
                    .hint("set it before the process starts; the command rlx does so itself"));
            }
        }
        let mut reasons = Vec::new();
        for name in names() {
            // SAFETY: loading NVIDIA's library runs its initialisers, which is what it is for.
            match unsafe { Library::new(&name) } {
                Ok(library) => return Nccl::of(library),
                Err(e) => reasons.push(format!("{}: {e}", name.display())),
            }
        }
        let what =
            format!("NCCL, by which cards exchange tensors, was not found: {}", reasons.join("; "));
        Err(Error::new(Code::DeviceUnavailable, what).hint(
            "install NVIDIA's package libnccl2, or name libnccl.so.2 of PyPI's nvidia-nccl-cu12 in RLX_NCCL",
        ))
    }

    fn of(library: Library) -> Result<Nccl> {
        let missing = |e: libloading::Error| {
            Error::new(Code::DeviceUnavailable, format!("NCCL lacks a function: {e}"))
        };
        // SAFETY: these are the functions' types in NCCL's header, the same since its version 2.10.
        unsafe {
            Ok(Nccl {
                init_all: *library.get(b"ncclCommInitAll\0").map_err(missing)?,
                all_reduce: *library.get(b"ncclAllReduce\0").map_err(missing)?,
                all_gather: *library.get(b"ncclAllGather\0").map_err(missing)?,
                abort: *library.get(b"ncclCommAbort\0").map_err(missing)?,
                error_string: *library.get(b"ncclGetErrorString\0").map_err(missing)?,
                _library: library,
            })
        }
    }

    fn check(&self, what: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: NCCL answers with a text of its own that ends in a zero and stays.
        let text = unsafe {
            let text = (self.error_string)(code);
            if text.is_null() { "no text".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        Err(Error::new(Code::DeviceLost, format!("NCCL: {what}: {text}")))
    }
}

/// A card's end of its group.
pub(super) struct Rank {
    nccl: Arc<Nccl>,
    handle: Handle,
    ranks: usize,
    turn: Arc<Turn>,
}

// SAFETY: a communicator may be used by any thread, by one at a time: calls of a card come one after the other, because
// its lists are recorded one after the other.
unsafe impl Send for Rank {}
// SAFETY: as above.
unsafe impl Sync for Rank {}

impl Drop for Rank {
    fn drop(&mut self) {
        // SAFETY: the communicator was made with the group and is freed here alone. What its rank still waits for ends.
        let _ = unsafe { (self.nccl.abort)(self.handle) };
    }
}

/// Where ranks wait until all of them record.
#[derive(Default)]
struct Turn {
    state: Mutex<(u64, usize)>,
    changed: Condvar,
}

impl Turn {
    /// Waits until all ranks have come; true for the one that came last.
    fn all(&self, ranks: usize) -> Result<bool> {
        let end = Instant::now() + PATIENCE;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let round = state.0;
        state.1 += 1;
        if state.1 == ranks {
            *state = (round + 1, 0);
            self.changed.notify_all();
            return Ok(true);
        }
        while state.0 == round {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.1 -= 1;
                let what = "a card of a group waited for another one, which did not come";
                return Err(Error::new(Code::DeviceLost, what));
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(false)
    }
}

impl Rank {
    /// Records while all other ranks record: nobody else calls the driver meanwhile.
    pub(super) fn together(&self, record: impl FnOnce() -> Result<()>) -> Result<()> {
        // The first two waits let the one that has the lock take it before anyone records, and keep it until all have.
        let calls = self.turn.all(self.ranks)?.then(exclusive);
        self.turn.all(self.ranks)?;
        let done = record();
        let ended = self.turn.all(self.ranks);
        drop(calls);
        done.and(ended.map(|_| ()))
    }
}

impl Cuda {
    /// Opens cards as the ranks of a group, in this order.
    ///
    /// # Errors
    /// `Usage` for no card, or one that is named twice; `DeviceUnavailable` for one that is not there, and without
    /// NCCL.
    pub fn group(ordinals: &[usize], folders: &Folders) -> Result<Vec<Cuda>> {
        for (i, ordinal) in ordinals.iter().enumerate() {
            if ordinals[..i].contains(ordinal) {
                return Err(Error::usage(format!("card {ordinal} is named twice"))
                    .hint("a group has every card once, such as --devices 0,1"));
            }
        }
        if ordinals.is_empty() {
            return Err(Error::usage("a group of no cards"));
        }
        let cards = ordinals.iter().map(|&n| Cuda::new(n, folders.clone()));
        let mut cards = cards.collect::<Result<Vec<Cuda>>>()?;
        let nccl = Arc::new(Nccl::load()?);
        let numbers = ordinals.iter().map(|&n| c_int::try_from(n));
        let numbers: Vec<c_int> = numbers
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| Error::usage("a card's number has 31 bits at most"))?;
        let mut handles: Vec<Handle> = vec![ptr::null_mut(); cards.len()];
        let calls = exclusive();
        // SAFETY: there is room for a communicator of each card.
        let made = unsafe {
            (nccl.init_all)(handles.as_mut_ptr(), cards.len() as c_int, numbers.as_ptr())
        };
        nccl.check("a group of cards", made)?;
        drop(calls);
        let (turn, ranks) = (Arc::new(Turn::default()), cards.len());
        for (card, handle) in cards.iter_mut().zip(handles) {
            let (nccl, turn) = (nccl.clone(), turn.clone());
            card.rank = Some(Rank { nccl, handle, ranks, turn });
        }
        // What NCCL loads and connects at first use it does now, outside of any recording.
        thread::scope(|scope| {
            let warm = |card: &Cuda| card.warm_up(ranks as u64);
            let all: Vec<_> = cards.iter().map(|card| scope.spawn(move || warm(card))).collect();
            let gone = || Error::internal("a thread of a group ended");
            all.into_iter().try_for_each(|t| t.join().map_err(|_| gone())?)
        })?;
        Ok(cards)
    }

    /// One exchange of each kind, of few bytes and of many.
    fn warm_up(&self, ranks: u64) -> Result<()> {
        self.bind()?;
        for bytes in [1 << 10, 1 << 20] {
            let failed = |e| super::error("memory of a group's first exchange", e);
            let room = bytes * (ranks as usize + 1);
            let memory = self.stream.alloc_zeros::<u8>(room).map_err(failed)?;
            let (x, y) = {
                use cudarc::driver::DevicePtr;
                let start = memory.device_ptr(&self.stream).0;
                (start, start + bytes as u64)
            };
            for what in [Exchanged::Sum(DType::F32), Exchanged::All] {
                self.exchange_at(what, (x, y), bytes as u64)?;
            }
            self.stream.synchronize().map_err(failed)?;
        }
        Ok(())
    }

    /// Queues an exchange with the other ranks.
    pub(super) fn exchange(&self, e: &Exchange) -> Result<()> {
        let ranks = self.rank.as_ref().ok_or_else(no_group)?.ranks as u64;
        let results = match e.what {
            Exchanged::Sum(_) => Some(e.bytes),
            Exchanged::All => e.bytes.checked_mul(ranks),
        };
        let results = results.ok_or_else(|| Error::internal("an exchange of too many bytes"))?;
        let places = (self.pointer(e.x, e.bytes)?, self.pointer(e.y, results)?);
        self.exchange_at(e.what, places, e.bytes)
    }

    fn exchange_at(&self, what: Exchanged, (x, y): (u64, u64), bytes: u64) -> Result<()> {
        let Rank { nccl, handle, .. } = self.rank.as_ref().ok_or_else(no_group)?;
        let too_many = |_| Error::internal("an exchange of more bytes than there are addresses");
        let bytes = usize::try_from(bytes).map_err(too_many)?;
        let stream = self.stream.cu_stream();
        let (x, y) = (x as *const c_void, y as *mut c_void);
        let code = match what {
            Exchanged::All => {
                // SAFETY: x has `bytes`, y as many for each rank, as the caller has found.
                unsafe { (nccl.all_gather)(x, y, bytes, UINT8, *handle, stream) }
            }
            Exchanged::Sum(dtype) => {
                let (number, size) = match dtype {
                    DType::F32 => (FLOAT32, 4),
                    DType::F16 => (FLOAT16, 2),
                    DType::BF16 => (BFLOAT16, 2),
                    _ => return Err(Error::internal(format!("a sum of {dtype} over cards"))),
                };
                // SAFETY: both have `bytes`, as the caller has found; they may be one.
                unsafe { (nccl.all_reduce)(x, y, bytes / size, number, SUM, *handle, stream) }
            }
        };
        nccl.check("an exchange", code)
    }
}
