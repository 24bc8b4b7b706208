//! The one error type that crosses the crate's boundary.
//!
//! An error says what happened, where, and what the reader can do about it. Modules may keep
//! enums of their own; they convert into this struct before a caller sees them.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// What kind of fault an [`Error`] is; scripts and pages branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Code {
    /// An option or argument outside its range, or a combination that cannot be.
    Usage,
    /// A model file or record that is malformed, incomplete, or not what its name says.
    BadFile,
    /// A file that is well formed but asks for something RLX does not have.
    Unsupported,
    /// IR that breaks an invariant: types, order, linearity.
    BadGraph,
    /// A stage of [`GraphModule`](crate::ir::GraphModule) asked for when it holds another.
    WrongStage,
    /// The device asked for is not there, or refused to start.
    DeviceUnavailable,
    /// The device went away; every id it gave out is void.
    DeviceLost,
    /// The device or the host has too little memory.
    OutOfMemory,
    /// The prompt does not fit the context.
    ContextFull,
    /// A source of bytes failed: a URL, a file handle, a stream that stopped.
    Io,
    /// The caller asked to stop.
    Cancelled,
    /// The engine was disposed while the call ran.
    Disposed,
    /// A check against recorded truth failed.
    CheckFailed,
    /// A fault of RLX itself: please report it.
    Internal,
}

impl Code {
    /// The stable name that JSON and JavaScript show: `bad_file`, `device_lost`, …
    pub const fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::BadFile => "bad_file",
            Self::Unsupported => "unsupported",
            Self::BadGraph => "bad_graph",
            Self::WrongStage => "wrong_stage",
            Self::DeviceUnavailable => "device_unavailable",
            Self::DeviceLost => "device_lost",
            Self::OutOfMemory => "out_of_memory",
            Self::ContextFull => "context_full",
            Self::Io => "io",
            Self::Cancelled => "cancelled",
            Self::Disposed => "disposed",
            Self::CheckFailed => "check_failed",
            Self::Internal => "internal",
        }
    }

    /// The exit code of the command line.
    pub const fn exit(self) -> i32 {
        match self {
            Self::CheckFailed | Self::Internal | Self::Cancelled | Self::Disposed => 1,
            Self::Usage | Self::ContextFull | Self::WrongStage => 2,
            Self::BadFile | Self::Unsupported | Self::BadGraph | Self::Io => 3,
            Self::DeviceUnavailable | Self::DeviceLost => 4,
            Self::OutOfMemory => 5,
        }
    }
}

/// A fault with what, where, and what to do. No field ends in a full stop.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// The kind of fault.
    pub code: Code,
    /// One sentence: the operator or field, what it got, what it needs.
    pub what: String,
    /// Where: `model.gguf, byte 219`, `line 3, column 9`, a node's name. Empty when there is no place.
    pub at: String,
    /// What the reader can do. Empty when there is nothing to be done.
    pub hint: String,
    /// What a program can act on without reading the sentences.
    pub details: Option<Box<Details>>,
    /// The fault underneath.
    pub cause: Option<Box<Error>>,
}

/// Numbers of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Details {
    /// Of `OutOfMemory`.
    Memory {
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that there are, where somebody knows.
        available: Option<u64>,
        /// The longest context to try, in tokens; `None` where a shorter one would not help.
        context: Option<u64>,
    },
    /// Of a tensor that a run was given and does not take.
    Tensor {
        /// The input.
        input: String,
        /// The sizes that were given, outermost first.
        given: Vec<u64>,
        /// The type that is wanted, sizes and symbols as a graph's text has them.
        wanted: String,
    },
}

/// The crate's result.
pub type Result<T, E = Error> = core::result::Result<T, E>;

impl Error {
    /// An error that names no place yet; chain [`at`](Self::at) and [`hint`](Self::hint).
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            at: String::new(),
            hint: String::new(),
            details: None,
            cause: None,
        }
    }

    /// A malformed file.
    pub fn bad_file(what: impl Into<String>) -> Self {
        Self::new(Code::BadFile, what)
    }

    /// IR that breaks an invariant.
    pub fn bad_graph(what: impl Into<String>) -> Self {
        Self::new(Code::BadGraph, what)
    }

    /// An option out of range.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Code::Usage, what)
    }

    /// A fault of RLX itself.
    pub fn internal(what: impl Into<String>) -> Self {
        Self::new(Code::Internal, what).hint("this is a bug in RLX, please report it")
    }

    /// Says where.
    #[must_use]
    pub fn at(mut self, at: impl Into<String>) -> Self {
        self.at = at.into();
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Says what a program can act on.
    #[must_use]
    pub fn details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Keeps the fault underneath.
    #[must_use]
    pub fn caused_by(mut self, cause: Error) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }
}

impl fmt::Display for Error {
    /// One line: `what (at); hint`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.at.is_empty() {
            write!(f, " ({})", self.at)?;
        }
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.cause.as_deref().map(|e| e as _)
    }
}
