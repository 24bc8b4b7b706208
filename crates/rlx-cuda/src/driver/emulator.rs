//! The emulator: kernels compiled as C++ by the machine's compiler, run by a process of their own.
//!
//! `tests/emulator` has its sources: `block.cpp` runs a block's threads as fibres, `block.h` is what kernels see of it,
//! `cuda.h` has CUDA's words, `host.cpp` is the process. The process has the buffers; this file sends it commands and
//! reads its answers. What a kernel does wrong ends the process with a sentence, which is the error of the call; the
//! device is lost then, as a real one.
//!
//! Numbers are 64 bits, little-endian. A command is its number, then what `host.cpp` says.

use super::{At, Driver, DriverInfo, Floats, Launch, Parameter, Product, Work};
use rlx_core::plan::hash;
use rlx_core::runtime::device::shared::Lock;
use rlx_core::runtime::device::table::Table;
use rlx_core::{Code, Error, Result};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What is watched while kernels run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// Only what the fibres notice: barriers, exchanges, threads that ended.
    #[default]
    Nothing,
    /// Accesses outside of buffers and shared arrays.
    Addresses,
    /// Two threads of a block at one address without a barrier between them.
    Races,
}

impl Watch {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Watch::Nothing => &[],
            Watch::Addresses => &["-fsanitize=address"],
            Watch::Races => &["-fsanitize=thread"],
        }
    }
}

/// The emulator as a GPU.
pub struct Emulator {
    info: DriverInfo,
    /// Where what is compiled is kept.
    cache: PathBuf,
    /// The headers, compiled; and a number that changes with them.
    headers: PathBuf,
    version: u64,
    watch: Watch,
    process: Lock<Process>,
    /// What reads have brought.
    reads: Lock<Table<u32, Vec<u8>>>,
    lists: Lock<Table<u32, Vec<Work>>>,
    begun: Instant,
    times: Lock<Table<u32, Vec<[u64; 2]>>>,
}

struct Process {
    child: Child,
    /// Commands.
    to: ChildStdin,
    /// Answers.
    from: ChildStdout,
    lost: Option<Error>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // An emulator that is gone already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The compiler.
const COMPILER: &str = "g++";
const FLAGS: [&str; 6] = [
    "-std=c++17",
    "-O1",
    "-g1",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-Wno-unknown-pragmas",
];

/// A kernel is linked with little: what else it needs the process has, and a linker takes long to look through C++'s
/// libraries.
const ALONE: [&str; 5] = ["-nostdlib", "-fno-use-linker-plugin", "-lm", "-lgcc", "-lc"];

fn io(what: &str) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |e| Error::new(Code::DeviceUnavailable, format!("{what}: {e}"))
}

impl Emulator {
    /// Compiles the process if it is not in `cache`, and starts it. `sources` is the folder `tests/emulator`.
    ///
    /// # Errors
    /// `DeviceUnavailable` without a C++ compiler, or where the process does not start.
    pub fn start(sources: &Path, cache: &Path, warp: u32, watch: Watch) -> Result<Emulator> {
        fs::create_dir_all(cache).map_err(io("the folder of compiled kernels"))?;
        let version = version(sources, &["host.cpp", "block.cpp", "block.h"])?;
        let binary = cache.join(format!("host-{version:016x}-{watch:?}"));
        once(&binary, |unfinished| {
            let mut command = Command::new(COMPILER);
            command.args(FLAGS).args(["-O2", "-rdynamic"]).args(watch.flags());
            command.arg(sources.join("host.cpp"));
            run(command.arg("-o").arg(unfinished).arg("-ldl"))
        })?;
        let (headers, version) = headers(sources, cache, warp, watch)?;
        let mut child = Command::new(&binary)
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .env("TSAN_OPTIONS", "halt_on_error=1 exitcode=70 report_thread_leaks=0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(io("the emulator's process"))?;
        let no_pipe = || Error::internal("a process without pipes");
        let to = child.stdin.take().ok_or_else(no_pipe)?;
        let from = child.stdout.take().ok_or_else(no_pipe)?;
        let info = DriverInfo {
            name: "emulator".into(),
            arch: "emulator".into(),
            driver: String::new(),
            warp,
            memory: 1 << 34,
            // So few that a block takes several stages.
            processors: 2,
            // Of NVIDIA's cards, whose warps have 32 lanes.
            bulk_copies: warp == 32,
            warpgroups: warp == 32,
        };
        Ok(Emulator {
            info,
            cache: cache.into(),
            headers,
            version,
            watch,
            process: Lock::new(Process { child, to, from, lost: None }),
            reads: Lock::default(),
            lists: Lock::default(),
            begun: Instant::now(),
            times: Lock::default(),
        })
    }

    /// Sends a command and waits until it is done; gives the bytes of its answer.
    fn ask(&self, command: u64, words: &[u64], bytes: &[u8]) -> Result<Vec<u8>> {
        let process = &mut *self.process.lock();
        if let Some(lost) = &process.lost {
            return Err(lost.clone());
        }
        process.ask(command, words, bytes).map_err(|_| process.end())
    }
}

impl Emulator {
    /// Nanoseconds since it began.
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn run(&self, work: &Work) -> Result<()> {
        match work {
            Work::Launch(launch) => self.launch(launch),
            Work::Product(product) => self.product(product),
            Work::Exchange(_) => Err(super::no_group()),
        }
    }

    fn launch(&self, launch: &Launch) -> Result<()> {
        let mut words = vec![launch.function.into()];
        words.extend(launch.grid.map(u64::from));
        words.push(launch.threads.into());
        words.extend(launch.arguments.iter().flat_map(|argument| match *argument {
            Parameter::Place(at) => [1, at.buffer.into(), at.offset],
            Parameter::Number(n) => [0, 0, n],
        }));
        self.ask(8, &words, &[]).map(|_| ())
    }

    /// A product by its definition, sums in the order of k.
    fn product(&self, p: &Product) -> Result<()> {
        let floats = |at: At, count: u64| {
            let bytes = self.ask(5, &[at.buffer.into(), at.offset, 2 * count], &[])?;
            let float = |b: &[u8; 2]| match p.floats {
                Floats::Bf16 => half::bf16::from_le_bytes(*b).to_f32(),
                Floats::Sums | Floats::F16 => half::f16::from_le_bytes(*b).to_f32(),
            };
            Ok::<Vec<f32>, Error>(bytes.as_chunks().0.iter().map(float).collect())
        };
        let [rows, columns, k] = [p.rows, p.columns, p.k].map(u64::from);
        let (x, w) = (floats(p.x, rows * k)?, floats(p.w, columns * k)?);
        let bias = p.bias.map(|at| floats(at, columns)).transpose()?;
        let residual = p.residual.map(|at| floats(at, rows * columns)).transpose()?;
        let mut y = Vec::with_capacity((p.floats.bytes() * rows * columns) as usize);
        for (m, x) in x.chunks_exact(k as usize).enumerate() {
            for (n, w) in w.chunks_exact(k as usize).enumerate() {
                let mut sum = x.iter().zip(w).fold(0.0f32, |sum, (x, w)| x.mul_add(*w, sum));
                sum += bias.as_ref().map_or(0.0, |bias| bias[n]);
                sum += residual.as_ref().map_or(0.0, |all| all[m * columns as usize + n]);
                match p.floats {
                    Floats::Sums => y.extend(sum.to_le_bytes()),
                    Floats::F16 => y.extend(half::f16::from_f32(sum).to_le_bytes()),
                    Floats::Bf16 => y.extend(half::bf16::from_f32(sum).to_le_bytes()),
                }
            }
        }
        self.write(p.y, &y)
    }
}

impl Process {
    fn ask(&mut self, command: u64, words: &[u64], bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut message: Vec<u8> = Vec::with_capacity(8 * (words.len() + 2) + bytes.len());
        let count = words.len() as u64;
        for word in [command, count].iter().chain(words) {
            message.extend(word.to_le_bytes());
        }
        message.extend((bytes.len() as u64).to_le_bytes());
        message.extend(bytes);
        self.to.write_all(&message)?;
        self.to.flush()?;
        let mut size = [0; 8];
        self.from.read_exact(&mut size)?;
        let mut answer = vec![0; usize::try_from(u64::from_le_bytes(size)).unwrap_or(0)];
        self.from.read_exact(&mut answer)?;
        Ok(answer)
    }

    /// What the process said before it ended.
    fn end(&mut self) -> Error {
        let _ = self.child.kill();
        let mut said = String::new();
        if let Some(mut from) = self.child.stderr.take() {
            let _ = from.read_to_string(&mut said);
        }
        let said = said.trim();
        let what = if said.is_empty() { "the emulator's process ended" } else { said };
        let lost = Error::new(Code::DeviceLost, what);
        self.lost = Some(lost.clone());
        lost
    }
}

/// What kernels and headers are compiled with.
fn flags(warp: u32, watch: Watch) -> Vec<String> {
    let own = ["-fPIC".into(), format!("-DRLX_WARP={warp}")];
    let shared = FLAGS.iter().chain(watch.flags()).map(|flag| flag.to_string());
    shared.chain(own).collect()
}

/// A number of these sources and of how they are compiled.
fn version(sources: &Path, names: &[&str]) -> Result<u64> {
    let texts = names.iter().map(|name| fs::read_to_string(sources.join(name)).map_err(io(name)));
    let texts: Vec<String> = texts.collect::<Result<_>>()?;
    Ok(hash(texts.iter().map(String::as_str).chain(FLAGS).chain(ALONE)))
}

/// The folder of the headers, compiled once for all kernels, and their hash.
fn headers(sources: &Path, cache: &Path, warp: u32, watch: Watch) -> Result<(PathBuf, u64)> {
    let names = ["block.h", "cuda.h"];
    let version = version(sources, &names)?;
    let folder = cache.join(format!("headers-{version:016x}-{warp}-{watch:?}"));
    once(&folder, |unfinished| {
        fs::create_dir_all(unfinished).map_err(io("the folder of headers"))?;
        for name in names {
            fs::copy(sources.join(name), unfinished.join(name)).map_err(io(name))?;
        }
        let mut command = Command::new(COMPILER);
        let header = unfinished.join("cuda.h");
        run(command.args(flags(warp, watch)).args(["-x", "c++-header"]).arg(header))
    })?;
    Ok((folder, version))
}

/// Sees that a file or a folder is there. Threads that want the same wait for the one that makes it.
fn once(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    static BUSY: Mutex<BTreeMap<PathBuf, Arc<Mutex<()>>>> = Mutex::new(BTreeMap::new());
    let mut all = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
    let own = Arc::clone(all.entry(path.into()).or_default());
    drop(all);
    let _alone = own.lock().unwrap_or_else(PoisonError::into_inner);
    if path.exists() {
        return Ok(());
    }
    let unfinished = unfinished(path);
    make(&unfinished)?;
    // Another process may have been faster.
    match fs::rename(&unfinished, path) {
        Err(_) if path.exists() => Ok(()),
        done => done.map_err(io("what was compiled")),
    }
}

/// A name beside the final one: another process may compile the same.
fn unfinished(path: &Path) -> PathBuf {
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
    path.with_extension(format!("{}-{thread}", std::process::id()))
}

fn run(command: &mut Command) -> Result<()> {
    let done = command.output().map_err(io(COMPILER))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(Error::internal(format!("{COMPILER} does not take a kernel: {said}")))
}

impl Driver for Emulator {
    fn info(&self) -> &DriverInfo {
        &self.info
    }

    fn create(&self, buffer: u32, bytes: u64) -> Result<()> {
        let answer = self.ask(1, &[buffer.into(), bytes], &[])?;
        if answer == [1] {
            return Ok(());
        }
        Err(Error::new(Code::OutOfMemory, format!("no memory for {bytes} bytes")))
    }

    fn destroy(&self, buffer: u32) {
        // Where the process is gone, so is the buffer.
        let _ = self.ask(2, &[buffer.into()], &[]);
    }

    fn write(&self, at: At, bytes: &[u8]) -> Result<()> {
        self.ask(3, &[at.buffer.into(), at.offset], bytes).map(|_| ())
    }

    fn copy(&self, from: At, to: At, bytes: u64) -> Result<()> {
        let words = [from.buffer.into(), from.offset, to.buffer.into(), to.offset, bytes];
        self.ask(4, &words, &[]).map(|_| ())
    }

    fn read(&self, read: u32, from: &[(At, u64)]) -> Result<()> {
        let mut all = Vec::new();
        for (at, bytes) in from {
            all.extend(self.ask(5, &[at.buffer.into(), at.offset, *bytes], &[])?);
        }
        self.reads.lock().insert(read, all);
        Ok(())
    }

    fn poll_read(&self, read: u32) -> Result<Option<Vec<u8>>> {
        Ok(self.reads.lock().remove(&read))
    }

    fn has_products(&self) -> bool {
        true
    }

    fn compile(&self, function: u32, source: &str, entry: &str) -> Result<()> {
        // A library's names are its own: two texts may give one name to functions and shared arrays of different sizes.
        let text =
            format!("#include \"cuda.h\"\nnamespace {{\n{source}\n}}\nRLX_KERNEL({entry})\n");
        let key = hash([text.as_str(), &self.version.to_string()].into_iter());
        let (warp, watch) = (self.info.warp, self.watch);
        let library = self.cache.join(format!("{entry}-{key:016x}-{warp}-{watch:?}.so"));
        once(&library, |unfinished| {
            let mut source = unfinished.as_os_str().to_owned();
            source.push(".cpp");
            fs::write(&source, text).map_err(io("a kernel's source"))?;
            let mut command = Command::new(COMPILER);
            command.args(flags(warp, watch)).arg("-shared").arg("-I").arg(&self.headers);
            let done = run(command.arg(&source).arg("-o").arg(unfinished).args(ALONE));
            let _ = fs::remove_file(&source);
            done
        })?;
        let names = format!("{}\n{entry}_kernel", library.display());
        self.ask(6, &[function.into()], names.as_bytes()).map(|_| ())
    }

    fn forget(&self, function: u32) {
        let _ = self.ask(7, &[function.into()], &[]);
    }

    fn record(&self, list: u32, work: &[Work]) -> Result<()> {
        self.lists.lock().insert(list, work.to_vec());
        Ok(())
    }

    fn submit(&self, list: u32) -> Result<()> {
        let work = self.lists.lock().get(&list).cloned();
        let missing = || Error::internal(format!("there is no list {list}"));
        work.ok_or_else(missing)?.iter().try_for_each(|work| self.run(work))
    }

    fn drop_list(&self, list: u32) {
        self.lists.lock().remove(&list);
    }

    fn submit_timed(&self, times: u32, work: &[Work]) -> Result<()> {
        let mut all = Vec::new();
        for work in work {
            let begin = self.now();
            self.run(work)?;
            all.push([begin, self.now()]);
        }
        self.times.lock().insert(times, all);
        Ok(())
    }

    fn poll_times(&self, times: u32) -> Result<Option<Vec<[u64; 2]>>> {
        Ok(self.times.lock().remove(&times))
    }
}
