//! One pass over a program's steps: who computes what, in which order, on which memory.
//!
//! **Unsafe.** This module alone makes references into memory that several threads use at once, and
//! [`Share`]s, which make such references for kernels. The argument, in four parts:
//!
//! 1. *Places.* [`Built`](crate::program::Built) has checked that the places of every step are
//!    inside their memories, and that no result overlaps another result, or an operand that the
//!    step reads. [`Run::new`] checks that memories have the sizes the program was checked for.
//! 2. *Shares.* A step's result is cut into numbered shares that have no byte in common
//!    ([`Share::cut`]). [`Turns`] hands out each share of each step once, and views are made for a
//!    [`Turn`] alone ([`Run::compute`]).
//! 3. *Order.* A step's shares are handed out after every share of the step before is given back, so
//!    a step reads only what earlier steps wrote. Views live only while their share is computed.
//! 4. *Host.* The host reaches a memory only through its one [`Host`], which knows the turns of the last
//!    run that took the memory. Until these are finished, it gives no bytes to the host and the memory
//!    to no other run. A run whose kernel panicked never finishes, so its session stays closed.
#![allow(unsafe_code)]

use crate::aligned_bytes::AlignedBytes;
use crate::place::{Output, Place, Space};
use crate::program::Built;
use crate::simd::Level;
use crate::turns::{Claim, Turn, Turns, alone};
use crate::view::{Cx, Failure, Share};
use core::ops::Range;
use core::ptr::NonNull;
use rlx_core::runtime::device::SharedBytes;
use rlx_core::{Error, Result};
use std::sync::Arc;

/// Memory that workers read and write at once.
pub(crate) struct Cells {
    /// The allocation, which `drop` frees. It is no box, because moving a box claims unique access to its bytes.
    words: NonNull<[u128]>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are reached only through `Host` and through the views of a run, whose
// discipline is the module's argument; plain bytes belong to no thread.
unsafe impl Send for Cells {}
// SAFETY: as above: `&Cells` alone gives no access.
unsafe impl Sync for Cells {}

impl Cells {
    pub(crate) fn new(len: usize) -> Result<Cells> {
        let (words, offset) = AlignedBytes::new(len)?.into_words();
        let words = NonNull::from(Box::leak(words));
        // SAFETY: `offset + len` bytes are in the allocation: an `AlignedBytes` has them.
        let start = unsafe { words.cast::<u8>().add(offset) };
        Ok(Cells { words, start, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        // SAFETY: `words` came from a box in `new` and is freed here alone; views and slices
        // borrow an `Arc` of this value, so none is left.
        drop(unsafe { Box::from_raw(self.words.as_ptr()) });
    }
}

/// Memories that runs use one after another, and the host between runs. Do not implement `Clone`: the
/// host's slices exclude each other because there is only one `Host`.
pub(crate) struct Host {
    cells: Arc<Vec<Cells>>,
    /// The turns of the last run that took the memories.
    turns: Option<Arc<Turns>>,
}

impl Host {
    /// Zeroed memories of these sizes.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn new(sizes: impl Iterator<Item = usize>) -> Result<Host> {
        let cells = sizes.map(Cells::new).collect::<Result<_>>()?;
        Ok(Host { cells: Arc::new(cells), turns: None })
    }

    /// Bytes of memory `i`, if there is one.
    pub(crate) fn size(&self, i: usize) -> Option<usize> {
        self.cells.get(i).map(|cells| cells.len())
    }

    fn check_free(&self) -> Result<()> {
        if self.turns.as_ref().is_none_or(|t| t.is_finished()) {
            return Ok(());
        }
        Err(Error::internal("memory of a run that has not ended"))
    }

    /// Replaces memory `i` by zeroed memory of another size.
    ///
    /// # Errors
    /// `OutOfMemory`, and the memory stays unchanged; `Internal` while a run has it.
    pub(crate) fn replace(&mut self, i: usize, size: usize) -> Result<()> {
        self.check_free()?;
        let made = Cells::new(size)?;
        let cells = alone(&mut self.cells)?;
        *cells.get_mut(i).ok_or_else(|| Error::internal("no such memory"))? = made;
        Ok(())
    }

    /// Memory `i`.
    ///
    /// # Errors
    /// `Internal` while a run has it, or if there is none.
    pub(crate) fn bytes(&mut self, i: usize) -> Result<&mut [u8]> {
        self.check_free()?;
        let cells = self.cells.get(i).ok_or_else(|| Error::internal("no such memory"))?;
        // SAFETY: `start` points to `len` initialised bytes that the `Arc` keeps. No run has them
        // (just checked; the next one needs `&mut` of this host, part 4 of the argument), and
        // `&mut self` excludes the host's other slices.
        Ok(unsafe { core::slice::from_raw_parts_mut(cells.start.as_ptr(), cells.len()) })
    }
}

/// A weight's bytes: in the device's own memory, or in a shared map.
#[derive(Clone)]
pub(crate) enum WeightBytes {
    Owned { buffer: usize, range: Range<usize>, is_panels: bool },
    Shared { map: SharedBytes, range: Range<usize> },
}

/// A model's weights.
pub(crate) struct Weights {
    pub(crate) buffers: Vec<AlignedBytes>,
    pub(crate) entries: Vec<WeightBytes>,
}

impl Weights {
    /// Whether an entry is stored as panels.
    pub(crate) fn is_panels(&self, entry: usize) -> bool {
        matches!(self.entries[entry], WeightBytes::Owned { is_panels: true, .. })
    }

    /// The bytes of an entry; empty if its map has shrunk.
    pub(crate) fn bytes(&self, entry: usize) -> &[u8] {
        match &self.entries[entry] {
            WeightBytes::Owned { buffer, range, .. } => {
                &self.buffers[*buffer].bytes()[range.clone()]
            }
            WeightBytes::Shared { map, range } => {
                (**map).as_ref().get(range.clone()).unwrap_or(&[])
            }
        }
    }
}

/// A run of a program on a session's memory.
pub(crate) struct Run {
    pub(crate) program: Arc<Built>,
    weights: Arc<Weights>,
    /// The states, then the arena.
    memory: Arc<Vec<Cells>>,
    inputs: Arc<Vec<Cells>>,
    level: Level,
    turns: Arc<Turns>,
    /// Tokens of this submission.
    len: usize,
    /// The error of a step, if one failed.
    failure: Failure,
    /// When steps began and ended, where somebody asked.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) times: Option<Arc<crate::times::Times>>,
}

impl Run {
    /// `workers` is how many threads may work on the run; `pauses` says whether one of them works in slices.
    ///
    /// # Errors
    /// `Internal` if a memory is smaller than the program was checked for, or another run has it.
    pub(crate) fn new(
        program: Arc<Built>,
        weights: Arc<Weights>,
        memory: &mut Host,
        inputs: &mut Host,
        level: Level,
        workers: usize,
        pauses: bool,
        len: usize,
    ) -> Result<Run> {
        memory.check_free()?;
        inputs.check_free()?;
        let at_least = |have: &[Cells], need: &[usize]| {
            have.len() >= need.len() && need.iter().zip(have).all(|(n, c)| c.len() >= *n)
        };
        let fits = memory.cells.split_last().is_some_and(|(arena, states)| {
            arena.len() >= program.arena_bytes && at_least(states, &program.states)
        }) && at_least(&inputs.cells, &program.inputs)
            && program
                .weights
                .iter()
                .all(|w| w.entry < weights.entries.len() && weights.bytes(w.entry).len() >= w.end);
        if !fits {
            return Err(Error::internal(format!(
                "program {} needs other memory than its session has",
                program.name
            )));
        }
        let shares = program.steps.iter().map(|s| s.shares(workers, pauses)).collect();
        let turns = Arc::new(Turns::new(shares));
        memory.turns = Some(turns.clone());
        inputs.turns = Some(turns.clone());
        let (memory, inputs) = (memory.cells.clone(), inputs.cells.clone());
        let failure = Failure::default();
        Ok(Run {
            program,
            weights,
            memory,
            inputs,
            level,
            turns,
            len,
            failure,
            #[cfg(not(target_family = "wasm"))]
            times: None,
        })
    }

    /// Computes shares until there are none left. Several threads may do this at once; when one returns,
    /// the run is finished or broken.
    #[cfg_attr(not(feature = "threads"), allow(dead_code))] // one thread waits for nobody
    pub(crate) fn walk(&self) {
        self.turns.walk(|turn| self.compute(turn));
    }

    /// As [`walk`](Self::walk), until `pause` returns true, on a thread that must not wait for others.
    pub(crate) fn walk_until(&self, mut pause: impl FnMut() -> bool) {
        loop {
            match self.turns.try_claim() {
                Claim::Turn(turn) => self.turns.take(turn, |turn| self.compute(turn)),
                Claim::Wait(_) => core::hint::spin_loop(),
                Claim::End => return,
            }
            if !self.is_finished() && pause() {
                return;
            }
        }
    }

    /// True if a share will never be finished.
    pub(crate) fn is_broken(&self) -> bool {
        self.turns.is_broken()
    }

    /// True once every step is done.
    pub(crate) fn is_finished(&self) -> bool {
        self.turns.is_finished()
    }

    /// The run's error, if it failed. Call it when the run is finished.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.get().map(|e| match e.at.as_str() {
            "" => e.at(format!("@{}", self.program.name)),
            label => {
                let at = format!("@{}, {label}", self.program.name);
                e.at(at)
            }
        })
    }

    fn compute(&self, turn: &Turn) {
        if self.failure.is_set() {
            return; // what the step would read was not computed
        }
        let mut cx = self.views(turn, self.turns.shares(turn.step));
        if !cx.has_work() {
            return;
        }
        let kernel = &self.program.steps[turn.step].kernel;
        #[cfg(not(target_family = "wasm"))]
        if let Some(times) = &self.times {
            return times.of(turn.step, || kernel.run(&mut cx));
        }
        kernel.run(&mut cx);
    }

    /// The views of a turn. They live no longer than the turn.
    fn views<'a>(&'a self, turn: &'a Turn, shares: usize) -> Cx<'a> {
        let step = &self.program.steps[turn.step];
        let read = |place: &Option<Place>| place.as_ref().map_or(&[][..], |p| self.read(p));
        let is_panels = |place: &Option<Place>| match place {
            Some(Place { space: Space::Weight(i), .. }) => self.weights.is_panels(*i),
            _ => false,
        };
        let limit = step.limit.map_or(usize::MAX, |per| self.len.saturating_mul(per));
        let operands = step.operands.iter().map(|place| (read(place), is_panels(place)));
        let results = step.results.iter().map(|output| self.write(output, turn.share, shares));
        Cx::new(self.level, operands, results, limit, &self.failure)
    }

    fn cells(&self, place: &Place) -> Option<&Cells> {
        match place.space {
            Space::State(i) => self.memory.get(i),
            Space::Arena => self.memory.last(),
            Space::Input(i) => self.inputs.get(i),
            Space::Weight(_) => None,
        }
    }

    fn read(&self, place: &Place) -> &[u8] {
        let range = place.offset..place.offset + place.bytes;
        if let Space::Weight(i) = place.space {
            return self.weights.bytes(i).get(range).unwrap_or(&[]);
        }
        match self.cells(place) {
            // SAFETY: the place is within the memory (part 1 of the argument) and its bytes are
            // initialised; nobody writes them during this step (parts 1 and 4), and writes of
            // earlier steps came before (part 3).
            Some(cells) => unsafe {
                let at = cells.start.as_ptr().add(place.offset);
                core::slice::from_raw_parts(at, place.bytes)
            },
            None => &[],
        }
    }

    fn write(&self, output: &Output, share: usize, shares: usize) -> Share<'_> {
        let Some(cells) = self.cells(&output.place) else { return Share::empty() };
        // SAFETY: the place is within the memory (part 1 of the argument).
        let start = unsafe { cells.start.add(output.place.offset) };
        // SAFETY: from `start` on are the result's bytes, initialised. No other share of the turn's step has the
        // bytes of this one, and no operand shows them (parts 1 and 2); the borrow of the run ends with the turn.
        unsafe { Share::new(start, output, share, shares) }
    }
}

#[cfg(all(feature = "threads", not(target_family = "wasm")))]
impl crate::pool::Job for Run {
    fn walk(&self) {
        self.walk();
    }

    fn is_finished(&self) -> bool {
        self.is_finished()
    }

    fn name(&self) -> &str {
        &self.program.name
    }
}
