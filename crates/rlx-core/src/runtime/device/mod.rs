//! The trait every executor implements.
//!
//! It is object-safe: a page picks its executor at run time. Handles are ids; nothing is borrowed
//! across an await; natively an executor may be used from any thread. Work that takes time gives a [`Ticket`], and
//! [`Device::poll`] answers for it.

pub mod shared;
pub mod table;

use crate::error::{Code, Error, Result};
use crate::ir::lir::{Program, StateDecl};
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

/// Host bytes for a submission.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Which memory.
    pub to: WriteTo,
    /// Bytes from its start, a multiple of 4.
    pub offset: u64,
    /// What; a multiple of 4 bytes.
    pub bytes: Vec<u8>,
}

/// A submission of a program.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// What the host writes before the first step.
    pub writes: &'a [Write],
    /// Whether the program's outputs are read back. Where they are not, they can be copied
    /// ([`Device::copy`]) until the session's next submission.
    pub read: bool,
    /// About how many pieces of about equally many steps it is cut into: where others use the device too, they
    /// get their turn between them. The ticket answers after the last.
    pub pieces: u32,
}

impl<'a> Submission<'a> {
    /// These writes, in one piece, with its outputs read back.
    pub fn new(writes: &'a [Write]) -> Self {
        Submission { writes, read: true, pieces: 1 }
    }
}

/// Memory of a session.
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

/// A kernel launch of a timed submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchTime {
    /// Step of the program.
    pub step: u32,
    /// The kernel's entry point.
    pub kernel: &'static str,
    /// Begin and end in nanoseconds of the device's clock, which begins anywhere.
    pub ns: [u64; 2],
}

/// A submission that was timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedSubmission {
    /// What ran.
    pub program: ProgramId,
    /// Its launches, in order.
    pub launches: Vec<LaunchTime>,
}

/// Counts since the device was made; benches print them and tests compare them with outside counts.
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
    /// The adapter's name, or the level of vectors and the threads: `avx2, 2 threads`.
    pub adapter: String,
    /// Optional features in use: `subgroups`, `packed_4x8_integer_dot_product`.
    pub features: Vec<String>,
    /// Features that the device says it has and that are not used, each with why: `subgroups: …`.
    pub demoted: Vec<String>,
    /// How kernels are shaped, where that is a choice: `short=256x1 …`, as the executor writes it.
    pub tuning: Option<String>,
}

/// An executor. Every method answers at once; see the module's page.
pub trait Device: Anywhere {
    /// What the compiler plans for.
    fn target(&self) -> &Target;

    /// Which executor this is.
    fn info(&self) -> DeviceInfo;

    /// Features whose use [`avoid`](Self::avoid) can stop.
    fn optional(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// From now on programs are built without these of its [`optional`](Self::optional) features, and
    /// with all others. `why` stands in [`info`](Self::info).
    fn avoid(&self, _features: &[&'static str], _why: &str) {}

    /// The key under which a self-test's verdict on this model is kept: adapter, driver, version
    /// and a hash of the kernels' texts. Equal keys have equal verdicts. `None` where no driver
    /// stands between this executor and the hardware, so that there is nothing to check.
    fn kernels(&self, _model: ModelId) -> Option<String> {
        None
    }

    /// Frees kernels that no program is built from: those of a check, and those with a feature that was
    /// given up.
    fn forget_kernels(&self) {}

    /// Makes every weight buffer of the plan, still empty. Out of memory arrives at `poll`.
    fn allocate(&self, plan: Arc<WeightPlan>) -> Result<(ModelId, Ticket)>;

    /// Makes the weight buffers that a plan has behind those of the model's own, whose entries it begins with.
    /// Programs built from now on are bound to it. Not while a program of the model runs.
    ///
    /// # Errors
    /// `Internal` for a plan that does not begin with the model's.
    fn extend(&self, m: ModelId, plan: Arc<WeightPlan>) -> Result<Ticket>;

    /// Takes weight bytes. `Pending`: the staging ring is full, the waker is called when it is not.
    fn poll_put(
        &self,
        m: ModelId,
        at: Placed,
        bytes: Bytes<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>>;

    /// Prepares a program: pipelines, bind groups. Needs the plan, not the bytes. The program's
    /// weights are bound to the plan's entries.
    fn build(&self, m: ModelId, program: Arc<Program>) -> Result<(ProgramId, Ticket)>;

    /// Makes states, zeroed, and an arena.
    fn session(
        &self,
        m: ModelId,
        states: &[StateDecl],
        arena_bytes: u64,
    ) -> Result<(SessionId, Ticket)>;

    /// Gives a session a larger arena, behind what was submitted before. States, inputs and tensors stay; what was
    /// in the arena, outputs among it, is lost, and a submission that has not answered may answer `Disposed`.
    fn grow(&self, s: SessionId, arena_bytes: u64) -> Result<Ticket>;

    /// Makes a tensor of a session, zeroed; bytes are rounded up to a multiple of 4.
    fn tensor(&self, s: SessionId, bytes: u64) -> Result<(TensorId, Ticket)>;

    /// Queues the writes and then the program, whose outputs are read back. Submissions, copies and reads of a
    /// session run in the order they are queued in.
    fn submit(&self, s: SessionId, p: ProgramId, writes: &[Write]) -> Result<Ticket> {
        self.submit_with(s, p, &Submission::new(writes))
    }

    /// Queues a program as the submission says.
    fn submit_with(&self, s: SessionId, p: ProgramId, how: &Submission<'_>) -> Result<Ticket>;

    /// Queues copies, which do not pass through the host. A tensor is an input of a program by a copy into
    /// [`Memory::Input`], an output stays on the device by a copy from [`Memory::Output`].
    ///
    /// # Errors
    /// `Internal` for a range that is not within its memory, or a memory that is not the session's.
    fn copy(&self, s: SessionId, copies: &[Copy]) -> Result<()>;

    /// Queues a read; the ticket answers with one value. Offset and bytes are multiples of 4.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    fn read(&self, s: SessionId, from: Memory, offset: u64, bytes: u64) -> Result<Ticket>;

    /// Asks for a ticket's answer; a ticket answers `Ready` once. An executor that works on the
    /// calling thread does so here, in slices of at most 50 ms, and wakes itself between them.
    fn poll(&self, t: Ticket, cx: &mut Context<'_>) -> Poll<Result<Outputs>>;

    /// Frees what an id stands for. Unknown ids are ignored: freeing twice is no fault.
    fn free(&self, id: AnyId);

    /// Counts so far.
    fn counters(&self) -> Counters;

    /// Begins or ends timing every launch of the submissions that follow, which then take longer: what
    /// overlapped no longer does.
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

    /// The submissions timed since the last answer, in order. Ask when their tickets have answered.
    ///
    /// # Errors
    /// What the device meets.
    fn poll_times(&self, _: &mut Context<'_>) -> Poll<Result<Vec<TimedSubmission>>> {
        Poll::Ready(Ok(Vec::new()))
    }
}
