//! AMD's HIP and its run-time compiler, loaded when a device is asked for: a binary starts without them.
//!
//! The kernels are CUDA's, behind a header (`kernels/hip.cuh`). Everything is queued in one stream; a list of launches
//! is recorded as a graph. Nothing is freed that what is queued may use: who frees waits for the stream first. Bytes go
//! through pinned memory both ways, so that no copy depends on what HIP does with other memory. Code is kept on disk
//! under the hash of its text, the card's architecture and the compiler. No AMD card has run this yet
//! (docs/decisions/2026-11-28-rocm.md).

mod api;
mod compiler;
mod handles;
mod products;
mod times;
mod trial;

use super::{At, Driver, DriverInfo, Floats, Launch, Parameter, Work};
use api::{Api, Compiler, Paths, Products};
use handles::{Argument, Card, Event, Executable, Function, Memory, Pinned};
use products::Library;
use rlx_core::plan::hash;
use rlx_core::runtime::device::shared::Lock;
use rlx_core::runtime::device::table::Table;
use rlx_core::{Code, Error, Result};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::yield_now;
use std::time::{Duration, Instant};
use times::Timed;

/// How long a poll waits for a read.
const PATIENCE: Duration = Duration::from_millis(20);
/// Bytes of a write that are copied at once, and writes under way at most.
const PIECE: usize = 4 << 20;
const WRITES: usize = 16;
/// What stands in front of every text: the words of CUDA C that AMD's compiler has otherwise, or lacks, and products of
/// matrices by AMD's instructions.
pub const HEADER: &str =
    concat!(include_str!("../kernels/hip.cuh"), include_str!("../kernels/hip_matrix.cuh"));

/// An AMD device.
pub struct Hip {
    info: DriverInfo,
    /// What a kernel's code depends on beside its text.
    version: String,
    /// Where compiled kernels are kept.
    cache: Option<PathBuf>,
    lists: Lock<Table<u32, Option<Executable>>>,
    functions: Lock<Table<u32, Function>>,
    reads: Lock<Table<u32, Reading>>,
    /// Writes under way, the first one first.
    writes: Lock<VecDeque<(Pinned, Event)>>,
    /// What reads and writes have left behind.
    pinned: Lock<Vec<Pinned>>,
    events: Lock<Vec<Event>>,
    timed: Lock<Table<u32, Timed>>,
    /// The event that times are counted from.
    zero: Lock<Option<Event>>,
    buffers: Lock<Table<u32, Memory>>,
    /// Products of matrices, where the machine has hipBLASLt and it is right.
    library: Option<Library>,
    card: Card,
}

/// Bytes on their way to the host.
struct Reading {
    parts: Vec<Pinned>,
    /// Bytes of each part: its memory may have more.
    sizes: Vec<usize>,
    done: Event,
}

/// Held while a list is recorded, a kernel is loaded or memory is made: a process does one of these at a time, as with
/// CUDA.
static ALONE: Mutex<()> = Mutex::new(());

fn missing(what: &str, number: u32) -> Error {
    Error::internal(format!("the driver has no {what} {number}"))
}

/// The architecture in the bytes of `hipDeviceProp_t`, whose layouts have `gcnArchName` at different places: it is a
/// text such as `gfx90a:sramecc+:xnack-`, behind the card's name of 256 bytes.
fn arch_of(properties: &[u8]) -> Option<String> {
    let rest = properties.get(256..)?;
    let at = rest.windows(3).position(|w| w == b"gfx")?;
    let name = rest[at..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'-');
    Some(name.map(|b| char::from(*b)).collect())
}

/// Lanes of an architecture's wavefronts as AMD's compiler has them where nobody asks for others; none for one that
/// the kernels are not made for.
fn lanes_of(arch: &str) -> Option<u32> {
    let digits = arch.strip_prefix("gfx")?;
    // Stepping and minor version are a digit each: gfx90a is of version 9, gfx1100 of 11.
    match digits.get(..digits.len().checked_sub(2)?)? {
        "9" => Some(64),
        "10" | "11" | "12" => Some(32),
        _ => None,
    }
}

/// A text with what stands in front of it, and the compiler's options.
fn as_amd_has_it(arch: &str, lanes: u32, source: &str) -> (String, [String; 5]) {
    let options = [
        format!("--offload-arch={arch}"),
        format!("-DRLX_WARP={lanes}"),
        "-std=c++17".into(),
        "-O3".into(),
        // What a kernel does not write as `fmaf` rounds twice, as in the emulator.
        "-ffp-contract=off".into(),
    ];
    ([HEADER, source].concat(), options)
}

/// A kernel's code for an architecture such as `gfx90a`, on a machine that has AMD's compiler and need not have a card.
///
/// # Errors
/// `DeviceUnavailable` without the compiler; `Unsupported` for an architecture that the kernels are not made for;
/// `Internal` with what the compiler says.
pub fn code_for(arch: &str, source: &str, entry: &str) -> Result<Vec<u8>> {
    let lanes = lanes_of(arch);
    let lanes = lanes
        .ok_or_else(|| Error::new(Code::Unsupported, format!("there are no kernels for {arch}")))?;
    let compiler = Compiler::load(&Paths::usual());
    let compiler = compiler.map_err(|why| Error::new(Code::DeviceUnavailable, why))?;
    let (source, options) = as_amd_has_it(arch, lanes, source);
    compiler::compile(&compiler, &source, entry, &options)
}

impl Hip {
    /// Opens the card of that number. `cache` is a folder for compiled kernels.
    ///
    /// # Errors
    /// `DeviceUnavailable` that says what is missing.
    pub fn new(ordinal: usize, cache: Option<PathBuf>) -> Result<Hip> {
        Hip::open(&Paths::usual(), ordinal, cache)
    }

    /// The same with the libraries at these places: HIP's runtime, its compiler, and hipBLASLt if there is one.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_libraries(
        [runtime, compiler]: [&Path; 2],
        products: Option<&Path>,
        ordinal: usize,
        cache: Option<PathBuf>,
    ) -> Result<Hip> {
        let products = products.map(PathBuf::from).into_iter().collect();
        let paths =
            Paths { runtime: vec![runtime.into()], compiler: vec![compiler.into()], products };
        Hip::open(&paths, ordinal, cache)
    }

    fn open(paths: &Paths, ordinal: usize, cache: Option<PathBuf>) -> Result<Hip> {
        let hint = "install ROCm and its driver, or use another device: `rlx devices` lists them";
        let api =
            Api::load(paths).map_err(|why| Error::new(Code::DeviceUnavailable, why).hint(hint))?;
        let card = Card::open(Arc::new(api), ordinal).map_err(|e| e.hint(hint))?;
        let (name, memory, version) = card.describe()?;
        let unknown = |what: String| Error::new(Code::DeviceUnavailable, what);
        let arch = arch_of(&card.properties()?);
        let arch =
            arch.ok_or_else(|| unknown(format!("{name} has no name of its architecture")))?;
        let lanes = lanes_of(&arch);
        let warp = lanes.ok_or_else(|| unknown(format!("there are no kernels for {arch}")))?;
        let name = if name.is_empty() { format!("AMD {arch}") } else { name };
        // HIP's version is major * 10^7 + minor * 10^5 + patch.
        let driver = format!("HIP {}.{}", version / 10_000_000, version / 100_000 % 100);
        let [major, minor] = card.api.compiler.numbers();
        let library = Products::load(paths).and_then(|functions| Library::new(functions, &card));
        Ok(Hip {
            library,
            info: DriverInfo {
                name,
                arch,
                driver,
                warp,
                memory,
                processors: 0,
                bulk_copies: false,
                warpgroups: false,
            },
            version: format!("{version} {major}.{minor}"),
            cache,
            lists: Lock::default(),
            functions: Lock::default(),
            reads: Lock::default(),
            writes: Lock::default(),
            pinned: Lock::default(),
            events: Lock::default(),
            timed: Lock::default(),
            zero: Lock::default(),
            buffers: Lock::default(),
            card,
        })
    }

    /// A kernel's code: from disk, or compiled now.
    fn code(&self, source: &str, entry: &str) -> Result<Vec<u8>> {
        let (source, options) = as_amd_has_it(&self.info.arch, self.info.warp, source);
        let texts = [source.as_str(), self.version.as_str()].into_iter();
        let key = hash(texts.chain(options.iter().map(String::as_str)));
        let kept = self.cache.as_ref().map(|folder| folder.join(format!("{entry}-{key:016x}.co")));
        if let Some(code) = kept.as_ref().and_then(|path| fs::read(path).ok()) {
            return Ok(code);
        }
        let code = compiler::compile(&self.card.api.compiler, &source, entry, &options)?;
        if let Some(path) = kept {
            // Where nothing can be kept, it is compiled again next time.
            let unfinished = path.with_extension(format!("{}-{entry}", std::process::id()));
            let parent = path.parent().map_or(Ok(()), fs::create_dir_all);
            let _ = parent
                .and_then(|()| fs::write(&unfinished, &code))
                .and_then(|()| fs::rename(&unfinished, &path));
        }
        Ok(code)
    }

    fn queue(&self, work: &Work) -> Result<()> {
        match work {
            Work::Launch(launch) => self.launch(launch),
            Work::Product(product) => self.product(product),
            Work::Exchange(_) => Err(super::no_group()),
        }
    }

    fn launch(&self, launch: &Launch) -> Result<()> {
        let [x, ..] = launch.grid;
        if u64::from(x) * u64::from(launch.threads) > u32::MAX.into() {
            // A packet of the card's queue has the threads of an axis in 32 bits.
            let what = format!("a launch of {x} blocks of {} threads", launch.threads);
            return Err(Error::new(Code::Unsupported, what)
                .hint("AMD's cards start less than 2^32 threads along x"));
        }
        if launch.shared > 0 {
            // Kernels that ask for it copy in bulk, which no card of AMD's does.
            return Err(Error::internal(
                "a launch with shared memory that its text does not declare",
            ));
        }
        let (functions, buffers) = (self.functions.lock(), self.buffers.lock());
        let function = functions.get(&launch.function);
        let function = function.ok_or_else(|| missing("function", launch.function))?;
        let place = |parameter: &Parameter| match parameter {
            Parameter::Place(at) => {
                let buffer = buffers.get(&at.buffer).ok_or_else(|| missing("buffer", at.buffer))?;
                Ok(Argument::Place(buffer, at.offset))
            }
            Parameter::Number(n) => Ok(Argument::Number(*n)),
        };
        let arguments: Vec<_> = launch.arguments.iter().map(place).collect::<Result<_>>()?;
        self.card.launch(function, launch.grid, launch.threads, &arguments)
    }

    /// Waits for what is queued, which may use what is freed next. Where the device is lost, nothing runs.
    fn come_to_rest(&self) {
        let _ = self.card.synchronize();
    }

    /// Memory of the host with so many bytes.
    fn host(&self, bytes: usize) -> Result<Pinned> {
        let mut free = self.pinned.lock();
        let fits = |p: &Pinned| p.bytes() >= bytes && p.bytes() <= 4 * bytes.max(4096);
        match free.iter().position(fits) {
            Some(i) => Ok(free.swap_remove(i)),
            None => self.card.pinned(bytes.max(4096)),
        }
    }

    /// An event behind all that is queued.
    fn mark(&self) -> Result<Event> {
        let free = self.events.lock().pop();
        let mut event = free.map_or_else(|| self.card.event(), Ok)?;
        self.card.mark(&mut event)?;
        Ok(event)
    }

    /// Keeps what no copy uses any more.
    fn give_back(&self, parts: Vec<Pinned>, event: Event) {
        let mut free = self.pinned.lock();
        free.extend(parts);
        // A few are enough for what is in flight.
        free.truncate(WRITES);
        self.events.lock().push(event);
    }

    /// Takes back the memory of writes that have run; with `most` or more under way, waits for the first.
    fn end_writes(&self, most: usize) -> Result<()> {
        let mut writes = self.writes.lock();
        while let Some((_, event)) = writes.front() {
            if writes.len() >= most {
                self.card.wait_for(event)?;
            } else if !self.card.has_passed(event)? {
                break;
            }
            if let Some((part, event)) = writes.pop_front() {
                self.give_back(vec![part], event);
            }
        }
        Ok(())
    }
}

impl Drop for Hip {
    fn drop(&mut self) {
        self.come_to_rest();
    }
}

impl Driver for Hip {
    fn info(&self) -> &DriverInfo {
        &self.info
    }

    fn create(&self, buffer: u32, bytes: u64) -> Result<()> {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let made = self.card.memory(bytes)?;
        self.buffers.lock().insert(buffer, made);
        Ok(())
    }

    fn destroy(&self, buffer: u32) {
        self.come_to_rest();
        self.buffers.lock().remove(&buffer);
    }

    fn write(&self, at: At, bytes: &[u8]) -> Result<()> {
        let buffers = self.buffers.lock();
        let buffer = buffers.get(&at.buffer).ok_or_else(|| missing("buffer", at.buffer))?;
        if at.offset.checked_add(bytes.len() as u64).is_none_or(|end| end > buffer.bytes()) {
            let what =
                format!("{} bytes at {} of a buffer of {}", bytes.len(), at.offset, buffer.bytes());
            return Err(Error::internal(what));
        }
        for (i, piece) in bytes.chunks(PIECE).enumerate() {
            self.end_writes(WRITES)?;
            let mut part = self.host(piece.len())?;
            part.fill(piece)?;
            self.card.write((buffer, at.offset + (i * PIECE) as u64), &part, piece.len())?;
            let event = self.mark().inspect_err(|_| self.come_to_rest())?;
            self.writes.lock().push_back((part, event));
        }
        Ok(())
    }

    fn copy(&self, from: At, to: At, bytes: u64) -> Result<()> {
        let buffers = self.buffers.lock();
        let place = |at: At| {
            let buffer = buffers.get(&at.buffer).ok_or_else(|| missing("buffer", at.buffer))?;
            Ok::<_, Error>((buffer, at.offset))
        };
        self.card.move_bytes(place(to)?, place(from)?, bytes)
    }

    fn read(&self, read: u32, from: &[(At, u64)]) -> Result<()> {
        let buffers = self.buffers.lock();
        let (mut parts, mut sizes) = (Vec::new(), Vec::new());
        for &(at, bytes) in from {
            let buffer = buffers.get(&at.buffer).ok_or_else(|| missing("buffer", at.buffer))?;
            if at.offset.checked_add(bytes).is_none_or(|end| end > buffer.bytes()) {
                let what =
                    format!("{bytes} bytes at {} of a buffer of {}", at.offset, buffer.bytes());
                return Err(Error::internal(what));
            }
            let size = bytes as usize;
            let part = self.host(size)?;
            parts.push(part);
            sizes.push(size);
        }
        // Nothing is queued before all memory is there: what a copy writes to is kept until it has run.
        let queued = from.iter().zip(&parts).try_for_each(|((at, bytes), part)| {
            let buffer = buffers.get(&at.buffer).ok_or_else(|| missing("buffer", at.buffer))?;
            self.card.read(part, (buffer, at.offset), *bytes as usize)
        });
        let done = queued.and_then(|()| self.mark());
        match done {
            Ok(done) => {
                self.reads.lock().insert(read, Reading { parts, sizes, done });
                Ok(())
            }
            Err(e) => {
                self.come_to_rest();
                Err(e)
            }
        }
    }

    fn poll_read(&self, read: u32) -> Result<Option<Vec<u8>>> {
        let reading = self.reads.lock().remove(&read).ok_or_else(|| missing("read", read))?;
        let begun = Instant::now();
        let has_passed = || {
            let passed = self.card.has_passed(&reading.done);
            passed.inspect_err(|_| self.come_to_rest())
        };
        while !has_passed()? {
            if begun.elapsed() > PATIENCE {
                self.reads.lock().insert(read, reading);
                return Ok(None);
            }
            yield_now();
        }
        let mut bytes = Vec::with_capacity(reading.sizes.iter().sum());
        for (part, size) in reading.parts.iter().zip(&reading.sizes) {
            bytes.extend_from_slice(part.filled(*size)?);
        }
        self.give_back(reading.parts, reading.done);
        Ok(Some(bytes))
    }

    fn has_products(&self) -> bool {
        self.library.is_some()
    }

    fn multiplies(&self, floats: Floats) -> bool {
        self.library.as_ref().is_some_and(|library| library.multiplies(floats))
    }

    fn compile(&self, function: u32, source: &str, entry: &str) -> Result<()> {
        let code = self.code(source, entry)?;
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let made = self.card.load(&code, entry)?;
        self.functions.lock().insert(function, made);
        Ok(())
    }

    fn forget(&self, function: u32) {
        self.come_to_rest();
        self.functions.lock().remove(&function);
    }

    fn record(&self, list: u32, work: &[Work]) -> Result<()> {
        let mut recorded = None;
        if !work.is_empty() {
            let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            for work in work {
                if let Work::Product(product) = work {
                    self.prepare(product)?;
                }
            }
            let queue = || work.iter().try_for_each(|work| self.queue(work));
            recorded = Some(self.card.record(queue)?);
        }
        self.lists.lock().insert(list, recorded);
        Ok(())
    }

    fn submit(&self, list: u32) -> Result<()> {
        let lists = self.lists.lock();
        let recorded = lists.get(&list).ok_or_else(|| missing("list", list))?;
        recorded.as_ref().map_or(Ok(()), |recorded| self.card.submit(recorded))
    }

    fn drop_list(&self, list: u32) {
        self.come_to_rest();
        self.lists.lock().remove(&list);
    }

    fn submit_timed(&self, times: u32, work: &[Work]) -> Result<()> {
        self.queue_timed(times, work)
    }

    fn poll_times(&self, times: u32) -> Result<Option<Vec<[u64; 2]>>> {
        self.times(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_found_in_any_layout_of_properties() {
        for at in [256, 396, 1160] {
            let mut bytes = vec![0; 2048];
            bytes[..9].copy_from_slice(b"gfx card\0");
            bytes[at..at + 23].copy_from_slice(b"gfx90a:sramecc+:xnack-\0");
            assert_eq!(arch_of(&bytes).as_deref(), Some("gfx90a"));
        }
        assert_eq!(arch_of(&[0; 2048]), None);
        assert_eq!(arch_of(&[0; 16]), None);
    }

    #[test]
    fn wavefronts_are_those_of_the_architecture() {
        for (arch, lanes) in [
            ("gfx906", Some(64)),
            ("gfx90a", Some(64)),
            ("gfx942", Some(64)),
            ("gfx1030", Some(32)),
            ("gfx1100", Some(32)),
            ("gfx1201", Some(32)),
            ("gfx803", None),
            ("gfx9", None),
            ("sm_90", None),
        ] {
            assert_eq!(lanes_of(arch), lanes, "{arch}");
        }
    }
}
