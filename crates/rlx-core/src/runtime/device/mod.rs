//! The trait every executor implements.
//!
//! It is object-safe: a page picks its executor at run time. Handles are ids; nothing is borrowed
//! across an await; natively an executor may be used from any thread. Work that takes time returns a [`Ticket`],
//! whose answer comes from [`Device::poll`].

pub mod graph;
#[cfg(feature = "parallel")]
pub mod group;
pub mod shared;
pub mod table;

use crate::error::{Code, Error, Result};
use crate::ir::lir::{Cut, Program, StateDecl};
use crate::plan::WeightPlan;
use crate::runtime::device::shared::Anywhere;
use crate::target::Target;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Context, Poll};

/// A model's weights on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId(pub u32);

/// A program built for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramId(pub u32);

/// States and an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);

/// A tensor of a session: memory that submissions of all its programs can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub u32);

/// A promise of an answer; redeemed once by [`Device::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u32);

/// What [`Device::free`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyId {
    /// A model: its programs go with it.
    Model(ModelId),
    /// A program.
    Program(ProgramId),
    /// A session: its tensors go with it.
    Session(SessionId),
    /// A tensor of a session.
    Tensor(SessionId, TensorId),
}

/// Where weight bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Buffer of the weight plan.
    pub buffer: u32,
    /// Bytes from its start, a multiple of 4 except where the executor keeps a shared map.
    pub offset: u64,
}

/// Bytes of a file that stay where they are, such as a memory map.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Weight bytes on their way to a device.
#[derive(Clone)]
pub enum Bytes<'a> {
    /// Copied before `poll_put` answers `Ready`. The length is a multiple of 4, or these are the
    /// entry's last bytes.
    Slice(&'a [u8]),
    /// A whole entry of the weight plan inside a shared map: an executor may keep the map instead
    /// of copying.
    Shared {
        /// The map.
        map: SharedBytes,
        /// The entry's bytes in it.
        offset: usize,
        /// How many.
        len: usize,
    },
}

impl Bytes<'_> {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Slice(s) => s,
            Self::Shared { map, offset, len } => {
                (**map).as_ref().get(*offset..*offset + *len).unwrap_or(&[])
            }
        }
    }
}

/// What a submission writes before its first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteTo {
    /// Input `n` of the program.
    Input(u32),
    /// State `n` of the session.
    State(u32),
}

/// Bytes that the host writes before a submission's first step.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Which memory.
    pub to: WriteTo,
    /// Bytes from its start, a multiple of 4.
    pub offset: u64,
    /// The bytes; a multiple of 4.
    pub bytes: Vec<u8>,
}

impl Write {
    /// Zeros in all of a state, which has so many bytes.
    pub fn zeros(state: u32, bytes: u64) -> Write {
        Write { to: WriteTo::State(state), offset: 0, bytes: alloc::vec![0; bytes as usize] }
    }
}

/// A submission of a program.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// Bytes that the host writes before the first step.
    pub writes: &'a [Write],
    /// Whether the program's outputs are read back. If not, they can be copied ([`Device::copy`]) until the
    /// session's next submission.
    pub read: bool,
    /// Into about how many pieces of equally many steps the submission is cut: other users of the device get
    /// their turn between two pieces. The ticket answers after the last.
    pub pieces: u32,
    /// Whether [`Device::begin`] has begun the program: this is the rest of it.
    pub begun: bool,
}

impl<'a> Submission<'a> {
    /// These writes and the whole program, in one piece, with its outputs read back.
    pub fn new(writes: &'a [Write]) -> Self {
        Submission { writes, read: true, pieces: 1, begun: false }
    }

    /// For executors: fails for the rest of program `p` where a session has begun another one or none, or that writes
    /// to other memory than the parameters of the program's cut.
    ///
    /// # Errors
    /// `Usage` that says which.
    pub fn check_begun(
        &self,
        begun: Option<ProgramId>,
        p: ProgramId,
        cut: Option<Cut>,
    ) -> Result<()> {
        if !self.begun {
            return Ok(());
        }
        let Some(cut) = cut.filter(|_| begun == Some(p)) else {
            let what = format!("program {} is not what the session has begun", p.0);
            return Err(Error::usage(what).hint("begin it, and queue nothing else before its rest"));
        };
        let elsewhere = |w: &&Write| w.to != WriteTo::State(cut.params);
        match self.writes.iter().find(elsewhere) {
            Some(w) => Err(Error::usage(format!(
                "the rest of program {} writes to {:?}, which the steps before it may have read",
                p.0, w.to
            ))),
            None => Ok(()),
        }
    }
}

/// The error of [`Device::begin`] for a program without a cut.
pub fn no_cut(p: ProgramId) -> Error {
    Error::usage(format!("program {} samples no token, so that it has no rest to wait for", p.0))
}

/// Memory of a session that [`Device::copy`] and [`Device::read`] address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Input `n` of a program that has been submitted in the session, or will be.
    Input(ProgramId, u32),
    /// Output `n` of the program that ran last.
    Output(ProgramId, u32),
    /// State `n`.
    State(u32),
    /// A tensor.
    Tensor(TensorId),
}

/// A copy from one memory of a session to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Source.
    pub from: Memory,
    /// Bytes from its start, a multiple of 4.
    pub from_offset: u64,
    /// Destination; never an output.
    pub to: Memory,
    /// Bytes from its start, a multiple of 4.
    pub to_offset: u64,
    /// How many, a multiple of 4.
    pub bytes: u64,
}

impl Copy {
    /// Fails unless both ranges are within their memories, whose bytes `size` knows.
    ///
    /// # Errors
    /// `Internal` with the copy.
    pub fn check(&self, size: impl Fn(Memory) -> Option<u64>) -> Result<()> {
        let within = |memory, offset: u64| {
            let end = offset.checked_add(self.bytes);
            let words = offset.is_multiple_of(4) && self.bytes.is_multiple_of(4);
            words && end.zip(size(memory)).is_some_and(|(end, size)| end <= size)
        };
        let written = !matches!(self.to, Memory::Output(..)) && self.to != self.from;
        if written && within(self.from, self.from_offset) && within(self.to, self.to_offset) {
            return Ok(());
        }
        Err(Error::internal(format!("{self:?} is not from one memory of the session to another")))
    }
}

/// What a submission reads back: the program's outputs, one byte string each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// As [`Program::outputs`] lists them. Empty for tickets of `allocate`, `build`, `session`.
    pub values: Vec<Vec<u8>>,
}

/// The time of a kernel launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchTime {
    /// Step of the program.
    pub step: u32,
    /// The kernel's entry point.
    pub kernel: &'static str,
    /// Begin and end in nanoseconds of the device's clock, whose zero is arbitrary.
    pub ns: [u64; 2],
}

/// The times of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedSubmission {
    /// The program that ran.
    pub program: ProgramId,
    /// Its launches, in order.
    pub launches: Vec<LaunchTime>,
}

/// Counts since the device was made. Benches print them; tests compare them with their own counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Kernel launches.
    pub dispatches: u64,
    /// Queue submissions.
    pub submits: u64,
    /// Bytes copied back to the host.
    pub readback_bytes: u64,
    /// Bytes of buffers alive now.
    pub live_bytes: u64,
}

/// Which executor runs, for `info()` and `--json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The executor's name, as its target has it.
    pub kind: String,
    /// The adapter's name, or the SIMD level and the number of threads: `avx2, 2 threads`.
    pub adapter: String,
    /// Optional features in use: `subgroups`, `packed_4x8_integer_dot_product`.
    pub features: Vec<String>,
    /// Features that the device offers and RLX does not use, each with the reason: `subgroups: …`.
    pub demoted: Vec<String>,
    /// Lanes of a subgroup that kernels count on, and how they are known; absent where none are used.
    pub subgroups: Option<String>,
    /// The tuning of the kernels, if the executor has one: `short=256x1 …`.
    pub tuning: Option<String>,
}

/// An executor. Every method returns at once; see the module's page.
pub trait Device: Anywhere {
    /// The target that the compiler plans for.
    fn target(&self) -> &Target;

    /// Which executor this is.
    fn info(&self) -> DeviceInfo;

    /// Features that [`avoid`](Self::avoid) can switch off.
    fn optional(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Builds later programs without these [`optional`](Self::optional) features, and with all others.
    /// [`info`](Self::info) shows `why`.
    fn avoid(&self, _features: &[&'static str], _why: &str) {}

    /// Cache key of a self-test's verdict on this model: adapter, driver, version, and a hash of the
    /// kernels' texts. Equal keys have equal verdicts. `None` if there is no driver to check.
    fn kernels(&self, _model: ModelId) -> Option<String> {
        None
    }

    /// Cache key of times of the device's kernels: adapter, driver, version, features in use. `None` where one form of
    /// its products is the fastest everywhere, or nobody waits for it, so that it is not timed: see
    /// [`choice`](crate::runtime::choice).
    fn timed_as(&self) -> Option<String> {
        None
    }

    /// Frees kernels that no program uses: those of a self-test, and those with a feature that is avoided.
    fn forget_kernels(&self) {}

    /// Allocates every weight buffer of the plan, still empty. `OutOfMemory` comes from `poll`.
    fn allocate(&self, plan: Arc<WeightPlan>) -> Result<(ModelId, Ticket)>;

    /// Allocates the weight buffers that a larger plan adds to the model's own, with which it must begin.
    /// Programs built from now on are bound to the larger plan. Not while a program of the model runs.
    ///
    /// # Errors
    /// `Internal` for a plan that does not begin with the model's.
    fn extend(&self, m: ModelId, plan: Arc<WeightPlan>) -> Result<Ticket>;

    /// Takes weight bytes. `Pending` means that the staging ring is full; the waker is called once it has room.
    fn poll_put(
        &self,
        m: ModelId,
        at: Placed,
        bytes: Bytes<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>>;

    /// Prepares a program: pipelines, bind groups. This needs the weight plan, not the weights' bytes. The
    /// program's weights must be bound to the plan's entries.
    fn build(&self, m: ModelId, program: Arc<Program>) -> Result<(ProgramId, Ticket)>;

    /// Makes a session: zeroed states, and an arena of these segments, in bytes.
    fn session(
        &self,
        m: ModelId,
        states: &[StateDecl],
        arena: &[u64],
    ) -> Result<(SessionId, Ticket)>;

    /// Gives a session a larger arena of these segments, in bytes, after the submissions before it. States, inputs and
    /// tensors stay. The arena's contents, which include outputs, are lost; a submission that has not answered may
    /// answer `Disposed`.
    fn grow(&self, s: SessionId, arena: &[u64]) -> Result<Ticket>;

    /// Makes a tensor of a session, zeroed; bytes are rounded up to a multiple of 4.
    fn tensor(&self, s: SessionId, bytes: u64) -> Result<(TensorId, Ticket)>;

    /// Queues the writes, then the program, and reads its outputs back. Submissions, copies and reads of a session
    /// run in the order in which they are queued.
    fn submit(&self, s: SessionId, p: ProgramId, writes: &[Write]) -> Result<Ticket> {
        self.submit_with(s, p, &Submission::new(writes))
    }

    /// Queues a program with the options of a [`Submission`].
    fn submit_with(&self, s: SessionId, p: ProgramId, how: &Submission<'_>) -> Result<Ticket>;

    /// Begins a program: queues the steps before its [`cut`](Program::cut), which depend on no sampling parameter. The
    /// rest is a [`Submission`] that says `begun`; its writes are made between the two parts, and go to the state
    /// of the cut alone. So a device computes while the host thinks about what to write there.
    ///
    /// False where nothing was queued: the rest then runs the whole program. A device that works inside
    /// [`poll`](Self::poll) gains nothing from an early begin, and a rest that never comes costs it nothing.
    ///
    /// Whatever else is queued in the session ends what has begun: a submission, a copy, a read, a larger arena. Its
    /// steps may then have run or not.
    ///
    /// # Errors
    /// `Usage` for a program without a cut; else as [`submit_with`](Self::submit_with).
    fn begin(&self, s: SessionId, p: ProgramId) -> Result<bool>;

    /// Queues copies on the device. To use a tensor as an input, copy it to [`Memory::Input`]; to keep an output on
    /// the device, copy it from [`Memory::Output`].
    ///
    /// # Errors
    /// `Internal` for a range outside its memory, or memory of another session.
    fn copy(&self, s: SessionId, copies: &[Copy]) -> Result<()>;

    /// Queues a read; the ticket's answer has one value. Offset and bytes must be multiples of 4.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    fn read(&self, s: SessionId, from: Memory, offset: u64, bytes: u64) -> Result<Ticket>;

    /// Asks for a ticket's answer, which is `Ready` once. An executor without threads of its own does its
    /// work here, in slices of at most 50 ms, and wakes the task between them.
    fn poll(&self, t: Ticket, cx: &mut Context<'_>) -> Poll<Result<Outputs>>;

    /// Frees what an id stands for. Unknown ids are ignored, so freeing twice is allowed.
    fn free(&self, id: AnyId);

    /// Counts so far.
    fn counters(&self) -> Counters;

    /// Switches the timing of every launch on or off, for later submissions. Timed submissions take longer,
    /// because their launches do not overlap.
    ///
    /// # Errors
    /// `Unsupported` where launches cannot be timed.
    fn time_launches(&self, on: bool) -> Result<()> {
        if !on {
            return Ok(());
        }
        let kind = self.info().kind;
        Err(Error::new(Code::Unsupported, format!("the device {kind} does not time launches")))
    }

    /// The times of submissions since the last call, in order. Call it after their tickets have answered.
    ///
    /// # Errors
    /// Errors of the device.
    fn poll_times(&self, _: &mut Context<'_>) -> Poll<Result<Vec<TimedSubmission>>> {
        Poll::Ready(Ok(Vec::new()))
    }
}
