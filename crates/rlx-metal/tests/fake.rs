//! A Metal that checks how it is called, and runs the kernels in the emulator.
//!
//! A committed command buffer runs only when somebody waits for it, as late as a real one may: a processor that
//! touches a buffer too early sees the old bytes and is told so.

use crate::emulator::{Emulator, Parameter, Signature, Watch};
use rlx_core::{Code, Error, Result};
use rlx_metal::api::{DeviceInfo, Metal, Span};
use rlx_metal::msl::{TENSORS, Text};
use rlx_metal::tensors::Tensors;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Bytes that a GPU of Apple's has for a threadgroup.
const THREADGROUP_MEMORY: u32 = 32 << 10;

/// A buffer of the process.
pub struct Buffer {
    number: u32,
    bytes: u64,
    process: Arc<Mutex<Process>>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // After a failed test nobody counts.
        if let Ok(mut process) = self.process.lock() {
            process.live -= self.bytes;
            process.emulator.ask(2, &[self.number.into()], &[]);
        }
    }
}

pub struct Pipeline {
    number: u32,
    entry: String,
    threads: u32,
    parameters: Vec<Parameter>,
    memory: Vec<u32>,
}

/// One call of a command buffer, with what keeps it alive.
enum Call {
    Dispatch {
        pipeline: Arc<Pipeline>,
        buffers: BTreeMap<u32, (Arc<Buffer>, u64)>,
        bytes: BTreeMap<u32, Vec<u8>>,
        groups: [u32; 3],
    },
    Copy {
        from: (Arc<Buffer>, u64),
        to: (Arc<Buffer>, u64),
        bytes: u64,
    },
}

#[derive(Default)]
pub struct Commands {
    calls: Vec<Call>,
    /// The open encoder.
    pipeline: Option<Arc<Pipeline>>,
    buffers: BTreeMap<u32, (Arc<Buffer>, u64)>,
    bytes: BTreeMap<u32, Vec<u8>>,
    memory: BTreeMap<u32, u32>,
}

struct Process {
    emulator: Emulator,
    /// The next number of a buffer or function.
    next: u32,
    /// Committed and not run.
    waiting: BTreeMap<u64, Vec<Call>>,
    committed: u64,
    /// When each of them ran, by a clock of dispatches.
    ran: BTreeMap<u64, Span>,
    clock: u64,
    live: u64,
    /// Launches of each kernel.
    launches: BTreeMap<String, u64>,
    resident: BTreeMap<u32, u32>,
    /// The command buffer that fails.
    fail_at: Option<u64>,
}

/// The GPU.
pub struct Fake {
    pub info: DeviceInfo,
    /// Whether its compiler takes texts with tensor operations.
    compiles_tensors: bool,
    process: Arc<Mutex<Process>>,
}

impl Fake {
    pub fn new(watch: Watch) -> Fake {
        let info = DeviceInfo {
            name: "Apple emulated".into(),
            system: "tests".into(),
            max_buffer: 1 << 30,
            memory: 1 << 32,
            threadgroup_memory: THREADGROUP_MEMORY,
            tensors: Tensors::None,
        };
        let process = Process {
            emulator: Emulator::start(watch),
            next: 0,
            waiting: BTreeMap::new(),
            committed: 0,
            ran: BTreeMap::new(),
            clock: 0,
            live: 0,
            launches: BTreeMap::new(),
            resident: BTreeMap::new(),
            fail_at: None,
        };
        Fake { info, compiles_tensors: true, process: Arc::new(Mutex::new(process)) }
    }

    /// The same GPU with Metal 4's tensor operations, whose compiler may refuse them nevertheless.
    pub fn with_tensors(mut self, compiles: bool) -> Fake {
        self.info.tensors = Tensors::Used;
        self.compiles_tensors = compiles;
        self
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Process> {
        // Behind a failed check the rest of a test only cleans up.
        self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Bytes of buffers that are alive, and of how many residency is asked for.
    pub fn live(&self) -> (u64, usize) {
        let process = self.locked();
        (process.live, process.resident.len())
    }

    /// Launches of a kernel so far.
    pub fn launches(&self, entry: &str) -> u64 {
        self.locked().launches.get(entry).copied().unwrap_or(0)
    }

    /// Lets the command buffer fail that is committed as the `n`th from now, the next being 0.
    pub fn fail_at(&self, n: u64) {
        let mut process = self.locked();
        process.fail_at = Some(process.committed + 1 + n);
    }

    /// The processor may touch a buffer only while nothing under way names it.
    fn check_idle(&self, process: &Process, buffer: &Buffer, what: &str) {
        let names = |b: &Arc<Buffer>| b.number == buffer.number;
        for (number, calls) in &process.waiting {
            let named = calls.iter().any(|call| match call {
                Call::Dispatch { buffers, .. } => buffers.values().any(|b| names(&b.0)),
                Call::Copy { from, to, .. } => names(&from.0) || names(&to.0),
            });
            assert!(!named, "the processor {what} a buffer that submission {number} names");
        }
    }
}

impl Commands {
    /// What every call of a compute encoder needs.
    fn encoder(&self) -> &Arc<Pipeline> {
        self.pipeline.as_ref().expect("a compute encoder is open")
    }

    fn check(&self, groups: [u32; 3], threads: u32) {
        let pipeline = self.encoder();
        assert_eq!(threads, pipeline.threads, "threads of the pipeline");
        assert!(groups.iter().all(|n| *n > 0), "an empty dispatch");
        for parameter in &pipeline.parameters {
            match parameter {
                Parameter::Buffer(n) => assert!(
                    self.buffers.contains_key(n) != self.bytes.contains_key(n),
                    "index {n} has one thing bound"
                ),
                Parameter::Threadgroup(n) => assert_eq!(
                    self.memory.get(n),
                    pipeline.memory.get(*n as usize),
                    "memory {n} of the threadgroup"
                ),
                Parameter::BuiltIn(_) => {}
            }
        }
        let memory: u32 = self.memory.values().sum();
        assert!(memory <= THREADGROUP_MEMORY, "{memory} bytes of a threadgroup");
    }
}

impl Process {
    /// Runs what was committed up to `number`. What a command buffer kept alive goes to `ended`, to be dropped where
    /// nobody holds the process.
    fn run(&mut self, number: u64, ended: &mut Vec<Call>) -> Result<()> {
        let earlier: Vec<u64> = self.waiting.range(..=number).map(|w| *w.0).collect();
        for number in earlier {
            let calls = self.waiting.remove(&number).unwrap_or_default();
            if self.fail_at == Some(number) {
                ended.extend(calls);
                ended.extend(std::mem::take(&mut self.waiting).into_values().flatten());
                return Err(Error::new(Code::DeviceLost, "the GPU hung, says Metal"));
            }
            let begin = self.clock;
            for call in &calls {
                self.call(call);
            }
            ended.extend(calls);
            self.ran.insert(number, [begin, self.clock]);
        }
        Ok(())
    }

    fn call(&mut self, call: &Call) {
        self.clock += 1;
        match call {
            Call::Copy { from, to, bytes } => {
                let words = [from.0.number.into(), from.1, to.0.number.into(), to.1, *bytes];
                self.emulator.ask(4, &words, &[]);
            }
            Call::Dispatch { pipeline, buffers, bytes, groups } => {
                *self.launches.entry(pipeline.entry.clone()).or_default() += 1;
                let mut words = vec![pipeline.number.into()];
                words.extend(groups.map(u64::from));
                words.push(pipeline.threads.into());
                let last = buffers.keys().chain(bytes.keys()).max().copied().unwrap_or(0);
                let mut copies = Vec::new();
                for index in 0..=last {
                    match (buffers.get(&index), bytes.get(&index)) {
                        (Some((buffer, offset)), _) => {
                            words.extend([1, buffer.number.into(), *offset])
                        }
                        (None, Some(bytes)) => {
                            self.next += 1;
                            let copy = self.next;
                            self.emulator.ask(1, &[copy.into(), bytes.len() as u64], &[]);
                            self.emulator.ask(3, &[copy.into(), 0], bytes);
                            words.extend([1, copy.into(), 0]);
                            copies.push(copy);
                        }
                        (None, None) => words.extend([0, 0, 0]),
                    }
                }
                self.emulator.ask(8, &words, &[]);
                for copy in copies {
                    self.emulator.ask(2, &[copy.into()], &[]);
                }
            }
        }
    }
}

impl Metal for Fake {
    type Buffer = Arc<Buffer>;
    type Pipeline = Arc<Pipeline>;
    type Commands = Commands;
    type Committed = u64;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn buffer(&self, bytes: u64, _label: &str) -> Option<Arc<Buffer>> {
        assert!(bytes > 0 && bytes <= self.info.max_buffer, "a buffer of {bytes} bytes");
        let mut process = self.locked();
        process.next += 1;
        let number = process.next;
        process.live += bytes;
        let made = process.emulator.ask(1, &[number.into(), bytes], &[]);
        (made == [1]).then(|| Arc::new(Buffer { number, bytes, process: self.process.clone() }))
    }

    fn keep_resident(&self, buffer: &Arc<Buffer>, keep: bool) {
        let mut process = self.locked();
        let count = process.resident.entry(buffer.number).or_default();
        assert_eq!(*count, u32::from(!keep), "residency is asked for once, and given back once");
        if keep {
            *count = 1;
        } else {
            process.resident.remove(&buffer.number);
        }
    }

    fn write(&self, buffer: &Arc<Buffer>, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= buffer.bytes, "a write ends outside of its buffer");
        let mut process = self.locked();
        self.check_idle(&process, buffer, "writes");
        process.emulator.ask(3, &[buffer.number.into(), offset], bytes);
    }

    fn read(&self, buffer: &Arc<Buffer>, offset: u64, bytes: u64) -> Vec<u8> {
        assert!(offset + bytes <= buffer.bytes, "a read ends outside of its buffer");
        let mut process = self.locked();
        self.check_idle(&process, buffer, "reads");
        process.emulator.ask(5, &[buffer.number.into(), offset, bytes], &[])
    }

    fn pipeline(&self, text: &Text) -> Result<Arc<Pipeline>> {
        let Text { text, language, entry, threads, memory, .. } = text;
        let (threads, with_tensors) = (*threads, *language == TENSORS);
        assert_eq!(with_tensors, text.contains("#include <metal_tensor>"), "{entry}");
        if with_tensors {
            assert_eq!(self.info.tensors, Tensors::Used, "{entry}");
            if !self.compiles_tensors {
                return Err(Error::internal("Metal does not take it: no such\n  header"));
            }
        }
        assert!(threads > 0 && threads <= 1024);
        assert!(memory.iter().all(|n| n.is_multiple_of(16)), "{memory:?}");
        let mut process = self.locked();
        process.next += 1;
        let number = process.next;
        process.emulator.load(number, text, entry, memory);
        let parameters = Signature::of(text, entry).parameters;
        let (entry, memory) = (entry.clone(), memory.clone());
        Ok(Arc::new(Pipeline { number, entry, threads, parameters, memory }))
    }

    fn commands(&self) -> Result<Commands> {
        Ok(Commands::default())
    }

    fn set_pipeline(&self, commands: &mut Commands, pipeline: &Arc<Pipeline>) {
        commands.pipeline = Some(pipeline.clone());
    }

    fn set_buffer(&self, commands: &mut Commands, index: u32, buffer: &Arc<Buffer>, offset: u64) {
        commands.encoder();
        assert!(index < 31, "Metal binds 31 buffers");
        assert!(offset < buffer.bytes && offset.is_multiple_of(256), "offset {offset}");
        commands.bytes.remove(&index);
        commands.buffers.insert(index, (buffer.clone(), offset));
    }

    fn set_bytes(&self, commands: &mut Commands, index: u32, bytes: &[u8]) {
        commands.encoder();
        assert!(index < 31 && !bytes.is_empty() && bytes.len() <= 4096);
        commands.buffers.remove(&index);
        commands.bytes.insert(index, bytes.into());
    }

    fn set_threadgroup_memory(&self, commands: &mut Commands, index: u32, bytes: u32) {
        commands.encoder();
        assert!(index < 31 && bytes.is_multiple_of(16) && bytes <= THREADGROUP_MEMORY);
        commands.memory.insert(index, bytes);
    }

    fn dispatch(&self, commands: &mut Commands, groups: [u32; 3], threads: u32) {
        commands.check(groups, threads);
        commands.calls.push(Call::Dispatch {
            pipeline: commands.encoder().clone(),
            buffers: commands.buffers.clone(),
            bytes: commands.bytes.clone(),
            groups,
        });
    }

    fn copy(
        &self,
        commands: &mut Commands,
        from: (&Arc<Buffer>, u64),
        to: (&Arc<Buffer>, u64),
        bytes: u64,
    ) {
        assert!(
            bytes > 0
                && bytes.is_multiple_of(4)
                && from.1.is_multiple_of(4)
                && to.1.is_multiple_of(4)
        );
        assert!(
            from.1 + bytes <= from.0.bytes && to.1 + bytes <= to.0.bytes,
            "a copy ends outside"
        );
        let calls = std::mem::take(&mut commands.calls);
        *commands = Commands { calls, ..Commands::default() };
        let place = |at: (&Arc<Buffer>, u64)| (at.0.clone(), at.1);
        commands.calls.push(Call::Copy { from: place(from), to: place(to), bytes });
    }

    fn commit(&self, commands: Commands) -> u64 {
        let mut process = self.locked();
        process.committed += 1;
        let number = process.committed;
        process.waiting.insert(number, commands.calls);
        number
    }

    fn ended(&self, committed: &u64, at_most: Duration) -> Option<Result<Span>> {
        let mut calls = Vec::new();
        let mut process = self.locked();
        if let Some(span) = process.ran.get(committed) {
            return Some(Ok(*span));
        }
        if at_most.is_zero() {
            return None;
        }
        let answer = match process.run(*committed, &mut calls) {
            Ok(()) => process.ran.get(committed).map(|span| Ok(*span)),
            Err(error) => Some(Err(error)),
        };
        drop(process);
        drop(calls);
        answer
    }
}
