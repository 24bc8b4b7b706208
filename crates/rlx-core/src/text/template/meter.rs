//! What a template may use: steps, bytes and depth, and the fault of one that uses more.
//!
//! A template comes with a model file, so it is a stranger's program. Every cost is paid *before*
//! the work is done or the bytes are allocated:
//!
//! - It loops, recurses, walks, compares or sorts long things: **steps**. One is a node of the
//!   program, an element that is visited, 16 bytes of text that are looked at or 128 that are
//!   copied.
//! - It builds long texts and lists: **bytes**. Each text, list, map, variable and pending output
//!   holds a [`Lease`] for as long as it lives.
//! - It nests macros, calls and expressions: [`MAX_DEPTH`], which `Run::enter` counts for
//!   everything that calls itself.
//! - It nests lists and maps: [`MAX_HEIGHT`], which each of them knows of itself, so that printing,
//!   comparing and dropping them is as shallow.
//! - Its source is long or nests: [`MAX_TEMPLATE_BYTES`], and the parser's [`MAX_NESTING`],
//!   [`MAX_TREE_HEIGHT`], [`MAX_ARGUMENTS`] and [`MAX_NAME_BYTES`].
//! - It refers to itself, which would never be freed: nothing that is shared can be changed.
//!   Namespaces are rows of a table, and a value has only the row's number.
//!
//! What has no lease (arguments of a call under way, the parsed template) is at most a few dozen
//! bytes a step or a byte of the template.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Bytes of a template's source. The longest of published models have some 30,000.
pub(super) const MAX_TEMPLATE_BYTES: usize = 256 << 10;
/// Tags and parentheses inside each other, for which the parser calls itself.
pub(super) const MAX_NESTING: u16 = 64;
/// Nodes of a parsed expression below each other: a chain of operators is high, not nested.
pub(super) const MAX_TREE_HEIGHT: u16 = 200;
/// Evaluations inside each other: nodes, filters, calls of macros. A page's stack is 1 MB.
pub(super) const MAX_DEPTH: u32 = 300;
/// Lists and maps inside each other.
pub(super) const MAX_HEIGHT: u8 = 100;

/// Steps of a render whatever its input: a fraction of a second. A real one of a short
/// conversation takes thousands.
const STEPS: u64 = 4_000_000;
/// Further steps for every byte of input: templates read a message some tens of times, and some
/// look from each message over all that follow it: two thousand short ones are then allowed.
const STEPS_PER_INPUT_BYTE: u64 = 64;
/// Bytes alive of a render whatever its input.
const BYTES: usize = 32 << 20;
/// Further bytes for every byte of input: it, copies under way and the output.
const BYTES_PER_INPUT_BYTE: usize = 16;
/// What a value of JSON counts besides its text, so that many short messages have their share.
pub(super) const INPUT_BYTES_PER_VALUE: usize = 16;
/// Bytes of text that are searched, compared or changed in about the time of a node.
const TEXT_BYTES_PER_STEP: usize = 16;
/// Bytes that are copied in that time.
const COPIED_BYTES_PER_STEP: usize = 128;
/// Arguments of a call, and parameters of a macro: they are searched by name.
pub(super) const MAX_ARGUMENTS: usize = 64;
/// Bytes of a name.
pub(super) const MAX_NAME_BYTES: usize = 128;

/// Why a render ended.
#[derive(Debug)]
pub(super) enum Fault {
    /// What the template said to `raise_exception`.
    Raised(String),
    /// A fault of the template.
    Failed(String),
    /// The template wants more than it may have.
    Limit(String),
}

pub(super) type Result<T> = core::result::Result<T, Fault>;

pub(super) fn failed<T>(what: impl Into<String>) -> Result<T> {
    Err(Fault::Failed(what.into()))
}

/// Counts down what a render may still use.
#[derive(Debug)]
pub(super) struct Meter {
    steps: AtomicU64,
    bytes: AtomicUsize,
    allowed_steps: u64,
    allowed_bytes: usize,
}

impl Meter {
    /// A render of an input of so many bytes. One thread renders: counts are atomic so that values may go to others.
    pub(super) fn new(input_bytes: usize) -> Arc<Self> {
        let allowed_steps = STEPS.saturating_add(STEPS_PER_INPUT_BYTE * input_bytes as u64);
        let allowed_bytes = BYTES.saturating_add(input_bytes.saturating_mul(BYTES_PER_INPUT_BYTE));
        let (steps, bytes) = (AtomicU64::new(allowed_steps), AtomicUsize::new(allowed_bytes));
        Arc::new(Self { steps, bytes, allowed_steps, allowed_bytes })
    }

    /// Pays for steps.
    pub(super) fn steps(&self, n: usize) -> Result<()> {
        let Some(left) = self.steps.load(Relaxed).checked_sub(n as u64) else {
            let allowed = self.allowed_steps;
            return Err(Fault::Limit(format!("did not end within {allowed} steps")));
        };
        self.steps.store(left, Relaxed);
        Ok(())
    }

    /// Pays for copying so many bytes.
    pub(super) fn copy(&self, bytes: usize) -> Result<()> {
        self.steps(1 + bytes / COPIED_BYTES_PER_STEP)
    }

    /// Pays for looking at a text of so many bytes.
    pub(super) fn text(&self, bytes: usize) -> Result<()> {
        self.steps(1 + bytes / TEXT_BYTES_PER_STEP)
    }

    /// Steps that were paid.
    #[cfg(test)]
    pub(super) fn steps_taken(&self) -> u64 {
        self.allowed_steps - self.steps.load(Relaxed)
    }

    /// Bytes that are held.
    #[cfg(test)]
    pub(super) fn bytes_held(&self) -> usize {
        self.allowed_bytes - self.bytes.load(Relaxed)
    }
}

/// Bytes that a value holds; they are given back with it.
#[derive(Debug, Default)]
pub(super) struct Lease {
    meter: Option<Arc<Meter>>,
    bytes: usize,
}

impl Lease {
    /// Nothing yet, to be grown.
    pub(super) fn new(meter: &Arc<Meter>) -> Self {
        Self { meter: Some(meter.clone()), bytes: 0 }
    }

    /// Holds so many bytes in all.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<()> {
        let Some(meter) = &self.meter else { return Ok(()) };
        let Some(left) = (meter.bytes.load(Relaxed) + self.bytes).checked_sub(bytes) else {
            let mb = meter.allowed_bytes >> 20;
            return Err(Fault::Limit(format!("needs more than {mb} MB of memory")));
        };
        meter.bytes.store(left, Relaxed);
        self.bytes = bytes;
        Ok(())
    }

    /// Holds so many bytes more.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<()> {
        self.resize(self.bytes.saturating_add(bytes))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            meter.bytes.store(meter.bytes.load(Relaxed) + self.bytes, Relaxed);
        }
    }
}
