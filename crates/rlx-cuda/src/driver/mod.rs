//! What the executor needs of a GPU and its driver.
//!
//! Buffers, functions, lists and reads have numbers that the executor chooses and never uses twice. Everything that
//! is queued (writes, copies, lists, reads) runs in the order in which it was queued.

pub mod copy_rate;
pub mod cuda;
#[cfg(feature = "emulator")]
pub mod emulator;
pub mod hip;
pub mod met;
mod products;

use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};

/// The GPU, for people and for the compiler of kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// The card's name.
    pub name: String,
    /// What kernels are compiled for: `sm_90`.
    pub arch: String,
    /// The version of the driver.
    pub driver: String,
    /// Lanes of a warp.
    pub warp: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Multiprocessors.
    pub processors: u32,
    /// Whether bytes are copied into shared memory while a block does something else (`cp.async.bulk`), and a block has
    /// room for what is on its way.
    pub bulk_copies: bool,
    /// Whether four warps beside each other have products of matrices in shared memory (`wgmma`). Such a card has bulk
    /// copies too.
    pub warpgroups: bool,
}

/// A place in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The buffer.
    pub buffer: u32,
    /// Bytes from its start.
    pub offset: u64,
}

/// What a function is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A pointer.
    Place(At),
    /// An integer of up to 64 bits, whose lower bits are the parameter's.
    Number(u64),
}

/// A launch of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The function.
    pub function: u32,
    /// Blocks along each axis.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory beside what the text declares.
    pub shared: u32,
    /// The function's arguments.
    pub arguments: Vec<Parameter>,
    /// Whether it may start while the launch before it runs, if the card does that.
    pub early: bool,
}

/// Which floats a product has. Its sums are f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Floats {
    /// x and w are f16, y is f32.
    Sums,
    /// All are f16.
    F16,
    /// All are bf16.
    Bf16,
}

impl Floats {
    /// Each of them, in the order of their numbers.
    pub const ALL: [Floats; 3] = [Floats::Sums, Floats::F16, Floats::Bf16];

    /// Bytes of an element of y.
    pub const fn bytes(self) -> u64 {
        if matches!(self, Floats::Sums) { 4 } else { 2 }
    }
}

/// A product of matrices by the card's own library: `y[rows, columns] = x[rows, k] w[columns, k]^T`, to which a bias
/// and a residual of y's type may be added before y is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// `[rows, k]`, from a multiple of 16 bytes on, as the others.
    pub x: At,
    /// `[columns, k]`.
    pub w: At,
    /// `[rows, columns]`.
    pub y: At,
    /// Rows of x.
    pub rows: u32,
    /// Rows of w.
    pub columns: u32,
    /// Elements of a row, a multiple of 8.
    pub k: u32,
    /// What they are.
    pub floats: Floats,
    /// `[columns]`.
    pub bias: Option<At>,
    /// `[rows, columns]`; it may be y.
    pub residual: Option<At>,
}

/// What becomes of the tensors that ranks exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exchanged {
    /// Their sum, of floats of this type.
    Sum(DType),
    /// All of them, one behind the other.
    All,
}

/// What every rank of a group gives and gets at one point of its list. All ranks come to the same exchanges in the same
/// order; whoever comes first waits for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What they get.
    pub what: Exchanged,
    /// What a rank gives.
    pub x: At,
    /// Where it gets the result; of a sum it may be x.
    pub y: At,
    /// Bytes of x.
    pub bytes: u64,
}

/// What a list has.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A kernel.
    Launch(Launch),
    /// A product by the library.
    Product(Product),
    /// An exchange with the other ranks of a group, which only a driver of a group has.
    Exchange(Exchange),
}

/// The error of a driver that is no rank of a group.
fn no_group() -> Error {
    Error::new(Code::Unsupported, "an exchange of devices on one that is in no group")
}

/// A GPU. A call that fails leaves the driver usable unless the error is `DeviceLost`.
pub trait Driver: Send + Sync {
    /// The GPU.
    fn info(&self) -> &DriverInfo;

    /// Makes a buffer of zeros.
    ///
    /// # Errors
    /// `OutOfMemory`; `DeviceLost`.
    fn create(&self, buffer: u32, bytes: u64) -> Result<()>;

    /// Frees a buffer once what is queued has run.
    fn destroy(&self, buffer: u32);

    /// Queues a write; the bytes are copied before this returns.
    ///
    /// # Errors
    /// `DeviceLost`; `Internal` outside of the buffer.
    fn write(&self, at: At, bytes: &[u8]) -> Result<()>;

    /// Queues a copy between buffers, or within one where the ranges have nothing in common.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn copy(&self, from: At, to: At, bytes: u64) -> Result<()>;

    /// Queues a read of several ranges, which are put one behind the other.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn read(&self, read: u32, from: &[(At, u64)]) -> Result<()>;

    /// The bytes of a read, once they are there.
    ///
    /// # Errors
    /// `DeviceLost`, and errors of what ran before it.
    fn poll_read(&self, read: u32) -> Result<Option<Vec<u8>>>;

    /// Whether it has a library for [`Product`]s.
    fn has_products(&self) -> bool;

    /// Whether that library multiplies these floats.
    fn multiplies(&self, _floats: Floats) -> bool {
        self.has_products()
    }

    /// Compiles a kernel. May be called by several threads at once.
    ///
    /// # Errors
    /// `Internal` with what the compiler says.
    fn compile(&self, function: u32, source: &str, entry: &str) -> Result<()>;

    /// Whether kernels are put aside for machines without a compiler.
    fn fills(&self) -> bool {
        false
    }

    /// Puts a kernel aside that this device itself may not use.
    ///
    /// # Errors
    /// `Io`; `Internal` with what the compiler says.
    fn fill(&self, _source: &str, _entry: &str) -> Result<()> {
        Ok(())
    }

    /// Frees a function that no list has.
    fn forget(&self, function: u32);

    /// Keeps a list of work for submissions.
    ///
    /// # Errors
    /// `DeviceLost`; `Internal` for a number that is not there.
    fn record(&self, list: u32, work: &[Work]) -> Result<()>;

    /// Queues a list.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn submit(&self, list: u32) -> Result<()>;

    /// Frees a list once what is queued has run.
    fn drop_list(&self, list: u32);

    /// Queues work as a list of it would run, but one piece after the other, and takes the times of each.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    fn submit_timed(&self, times: u32, work: &[Work]) -> Result<()>;

    /// When each piece of such work began and ended, in nanoseconds of the device's clock, once all have run.
    ///
    /// # Errors
    /// As [`poll_read`](Self::poll_read).
    fn poll_times(&self, times: u32) -> Result<Option<Vec<[u64; 2]>>>;
}

impl Driver for Box<dyn Driver> {
    fn info(&self) -> &DriverInfo {
        (**self).info()
    }
    fn create(&self, buffer: u32, bytes: u64) -> Result<()> {
        (**self).create(buffer, bytes)
    }
    fn destroy(&self, buffer: u32) {
        (**self).destroy(buffer);
    }
    fn write(&self, at: At, bytes: &[u8]) -> Result<()> {
        (**self).write(at, bytes)
    }
    fn copy(&self, from: At, to: At, bytes: u64) -> Result<()> {
        (**self).copy(from, to, bytes)
    }
    fn read(&self, read: u32, from: &[(At, u64)]) -> Result<()> {
        (**self).read(read, from)
    }
    fn poll_read(&self, read: u32) -> Result<Option<Vec<u8>>> {
        (**self).poll_read(read)
    }
    fn has_products(&self) -> bool {
        (**self).has_products()
    }
    fn multiplies(&self, floats: Floats) -> bool {
        (**self).multiplies(floats)
    }
    fn compile(&self, function: u32, source: &str, entry: &str) -> Result<()> {
        (**self).compile(function, source, entry)
    }
    fn fills(&self) -> bool {
        (**self).fills()
    }
    fn fill(&self, source: &str, entry: &str) -> Result<()> {
        (**self).fill(source, entry)
    }
    fn forget(&self, function: u32) {
        (**self).forget(function);
    }
    fn record(&self, list: u32, work: &[Work]) -> Result<()> {
        (**self).record(list, work)
    }
    fn submit(&self, list: u32) -> Result<()> {
        (**self).submit(list)
    }
    fn drop_list(&self, list: u32) {
        (**self).drop_list(list);
    }
    fn submit_timed(&self, times: u32, work: &[Work]) -> Result<()> {
        (**self).submit_timed(times, work)
    }
    fn poll_times(&self, times: u32) -> Result<Option<Vec<[u64; 2]>>> {
        (**self).poll_times(times)
    }
}
