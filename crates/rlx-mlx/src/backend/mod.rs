//! MLX as a backend: a thread of its own has all of MLX's objects, and does what it is told in order.
//!
//! What a call makes has its numbers at once; the thread writes the graph of a step while the one before it is
//! computed. An error of a run is found by whoever reads one of its results.

mod forms;
mod worker;

use crate::lower::{Form, dims, lower};
use crate::shim::find::{self, Installed};
use crate::tape::Kind;
use crate::weights::repack;
use rlx_core::ir::mir::Graph;
use rlx_core::runtime::device::DeviceInfo;
use rlx_core::runtime::device::graph::{Argument, Backend, GraphDevice};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};
use rlx_core::{Code, Error, Result};
use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use worker::{Message, Part, Work};

/// How long a poll waits for bytes.
const WAIT: Duration = Duration::from_millis(20);

/// The line to MLX's thread, which ends with it.
struct Line {
    /// None once the line is dropped.
    messages: Option<Sender<Message>>,
    next: AtomicU64,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Line {
    fn drop(&mut self) {
        // Without a sender the thread frees what it has and ends. It is waited for: a process that ends meanwhile would
        // take MLX's allocator away from it.
        self.messages = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Line {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn send(&self, message: Message) -> Result<()> {
        let messages = self.messages.as_ref().ok_or_else(gone)?;
        messages.send(message).map_err(|_| gone())
    }

    /// Sends a message that is answered, and waits.
    fn ask<T>(&self, message: impl FnOnce(Sender<Result<T>>) -> Message) -> Result<T> {
        let (sender, answer) = channel();
        self.send(message(sender))?;
        answer.recv().map_err(|_| gone())?
    }
}

fn gone() -> Error {
    Error::new(Code::DeviceLost, "MLX's thread has ended").hint("open the device again")
}

/// How MLX is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// On the CPU, even where there is a GPU.
    pub cpu: bool,
    /// MLX's own compiler fuses what a program computes element by element, when it first runs. On the CPU it asks a
    /// C++ compiler for each kernel, which takes minutes for a language model.
    pub compile: bool,
}

/// MLX.
pub struct Mlx {
    line: Arc<Line>,
    target: Target,
    device: String,
    version: String,
}

/// A tensor in MLX's memory: several arrays for a packed weight.
pub struct Tensor {
    arrays: Vec<u64>,
    packed: bool,
    line: Arc<Line>,
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // Where the thread has ended nothing is left to free.
        let _ = self.line.send(Message::Free(std::mem::take(&mut self.arrays)));
    }
}

/// A graph as MLX's thread has it.
pub struct Executable {
    number: u64,
    arguments: Vec<usize>,
    results: usize,
    line: Arc<Line>,
}

impl Drop for Executable {
    fn drop(&mut self) {
        let _ = self.line.send(Message::FreeProgram(self.number));
    }
}

/// Bytes on their way to the host.
pub struct Read(Mutex<Receiver<Result<Vec<u8>>>>);

impl Mlx {
    /// MLX by one that is installed.
    ///
    /// # Errors
    /// `Unsupported` where the shim does not compile or load.
    pub fn new(installed: &Installed, how: Options) -> Result<Mlx> {
        let (messages, inbox) = channel();
        let (ready, opened) = channel();
        let installed = installed.clone();
        let thread = std::thread::Builder::new()
            .name("rlx-mlx".into())
            .spawn(move || worker::run(&installed, how, &inbox, &ready))
            .map_err(|e| Error::new(Code::Unsupported, format!("MLX needs a thread: {e}")))?;
        let messages = Some(messages);
        let line = Arc::new(Line { messages, next: AtomicU64::new(0), thread: Some(thread) });
        let (device, version) = opened.recv().map_err(|_| gone())??;
        Ok(Mlx { line, target: crate::target(), device, version })
    }

    /// The device that computes, as MLX names it.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The version of MLX.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What MLX is asked for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    fn tensor(&self, parts: Vec<Part>, packed: bool) -> Result<Tensor> {
        let arrays: Vec<u64> = parts.iter().map(|_| self.line.number()).collect();
        let named = arrays.iter().copied().zip(parts).collect();
        let tensor = Tensor { arrays, packed, line: self.line.clone() };
        self.line.ask(|answer| Message::Upload(named, answer))?;
        Ok(tensor)
    }

    /// Makes a tensor of bytes: row-major, little-endian; blocks for a packed type.
    ///
    /// # Errors
    /// `OutOfMemory`; `Unsupported` for a type that MLX has not.
    pub fn upload(&self, ty: &Type, bytes: &[u8]) -> Result<Tensor> {
        let dims = dims(ty)?;
        if ty.bytes()? != bytes.len() as u64 {
            let what = format!("{} bytes are not those of {ty}", bytes.len());
            return Err(Error::internal(what));
        }
        if let DType::Block(format) = ty.dtype {
            let known = self.target.reads(ty.dtype) && !dims.is_empty();
            if !known {
                let what = format!("mlx has no tensors of {ty}");
                return Err(Error::new(Code::Unsupported, what));
            }
            let packed = repack(format, bytes)?;
            let groups = dims[dims.len() - 1] / 32;
            let sized = |width: i64| {
                let mut dims = dims.clone();
                if let Some(last) = dims.last_mut() {
                    *last = width;
                }
                dims
            };
            let words = packed.words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let bits = i64::from(packed.bits);
            let mut parts =
                vec![Part { kind: Kind::U32, dims: sized(groups * bits), bytes: words }];
            for numbers in packed.numbers {
                let bytes = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
                parts.push(Part { kind: Kind::F32, dims: sized(groups), bytes });
            }
            return self.tensor(parts, true);
        }
        let kind = Kind::of(ty.dtype)
            .ok_or_else(|| Error::new(Code::Unsupported, format!("mlx has no tensors of {ty}")))?;
        let bytes = match kind {
            // A boolean is 0 or 1, whatever the host has written.
            Kind::Bool => bytes.iter().map(|b| u8::from(*b != 0)).collect(),
            _ => bytes.to_vec(),
        };
        self.tensor(vec![Part { kind, dims, bytes }], false)
    }

    /// Makes a tape of a graph without symbols.
    ///
    /// # Errors
    /// `Unsupported` for an operator that the target does not claim.
    pub fn compile(&self, graph: &Graph) -> Result<Executable> {
        let lowered = lower(graph, &self.target, Form::default())?;
        let number = self.line.number();
        let (arguments, results) = (lowered.arguments.clone(), lowered.results);
        let work = Work { graph: graph.clone(), target: self.target.clone(), lowered };
        let executable = Executable { number, arguments, results, line: self.line.clone() };
        self.line.ask(|answer| Message::Compile(number, Box::new(work), answer))?;
        Ok(executable)
    }

    /// Queues a run: what each argument is, and whether it is given away.
    ///
    /// # Errors
    /// `Internal` for other arguments than the graph's; `DeviceLost`.
    pub fn run(
        &self,
        executable: &Executable,
        arguments: &[(&Tensor, bool)],
    ) -> Result<Vec<Tensor>> {
        let sizes = arguments.iter().map(|(t, _)| t.arrays.len());
        if !sizes.eq(executable.arguments.iter().copied()) {
            return Err(Error::internal("the arguments are not those of the graph"));
        }
        let arrays = arguments.iter().flat_map(|(t, given)| t.arrays.iter().map(|&n| (n, *given)));
        let results: Vec<u64> = (0..executable.results).map(|_| self.line.number()).collect();
        self.line.send(Message::Run {
            program: executable.number,
            arguments: arrays.collect(),
            results: results.clone(),
        })?;
        let tensor = |n| Tensor { arrays: vec![n], packed: false, line: self.line.clone() };
        Ok(results.into_iter().map(tensor).collect())
    }

    /// Begins to copy a tensor to the host.
    ///
    /// # Errors
    /// `Unsupported` for a packed weight, whose bytes MLX has in another order; `DeviceLost`.
    pub fn read(&self, tensor: &Tensor) -> Result<Read> {
        if tensor.packed || tensor.arrays.len() != 1 {
            return Err(Error::new(Code::Unsupported, "mlx does not give packed weights back"));
        }
        let (sender, answer) = channel();
        self.line.send(Message::Read(tensor.arrays[0], sender))?;
        Ok(Read(Mutex::new(answer)))
    }

    /// The bytes, once they are there; with `wait`, until they are there.
    ///
    /// # Errors
    /// What the runs before it failed with.
    pub fn poll(&self, read: &mut Read, wait: bool) -> Result<Option<Vec<u8>>> {
        let answers = read.0.get_mut().map_err(|_| gone())?;
        if wait {
            return answers.recv().map_err(|_| gone())?.map(Some);
        }
        let answer = match answers.try_recv() {
            Ok(answer) => Ok(answer),
            Err(TryRecvError::Empty) => answers.recv_timeout(WAIT),
            Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
        };
        match answer {
            Ok(bytes) => bytes.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
        }
    }
}

impl Backend for Mlx {
    type Tensor = Tensor;
    type Executable = Executable;
    type Read = Read;

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            kind: self.target.name.clone(),
            adapter: format!("{}, MLX {}", self.device, self.version),
            ..DeviceInfo::default()
        }
    }

    fn upload(&self, ty: &Type, bytes: &[u8]) -> Result<Tensor> {
        Mlx::upload(self, ty, bytes)
    }

    fn compile(&self, graph: &Graph) -> Result<Executable> {
        Mlx::compile(self, graph)
    }

    fn run(
        &self,
        executable: &Executable,
        arguments: Vec<Argument<Tensor>>,
    ) -> Result<Vec<Tensor>> {
        let given = |a: &Argument<Tensor>| matches!(a, Argument::Given(_));
        let all: Vec<_> = arguments.iter().map(|a| (a.tensor(), given(a))).collect();
        Mlx::run(self, executable, &all)
    }

    fn read(&self, tensor: &Tensor) -> Result<Read> {
        Mlx::read(self, tensor)
    }

    fn poll(&self, read: &mut Read, wait: bool) -> Result<Option<Vec<u8>>> {
        Mlx::poll(self, read, wait)
    }
}

/// Opens the MLX that is installed: on a GPU if it has one, unless `RLX_MLX_CPU` is set; by MLX's own compiler if
/// `RLX_MLX_COMPILE` is set.
///
/// # Errors
/// `DeviceUnavailable` where there is none, or where the shim does not compile or load.
pub fn open() -> Result<GraphDevice<Mlx>> {
    let is_set = |name: &str| env::var_os(name).is_some_and(|v| !v.is_empty());
    let how = Options { cpu: is_set("RLX_MLX_CPU"), compile: is_set("RLX_MLX_COMPILE") };
    Ok(GraphDevice::new(Mlx::new(&find::find()?, how)?, crate::target()))
}
