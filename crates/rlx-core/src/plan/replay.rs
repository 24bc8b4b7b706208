//! Executes a program by its addresses: one byte arena, reference operators.
//!
//! The arena is NaN (bytes of 0xFF) before the first step, and every value becomes NaN again after its
//! last read. So a step that reads unwritten or freed bytes computes NaN, and tests notice it.

use super::lifetimes::{lifetimes, place_of};
use super::part;
use crate::error::{Error, Result};
use crate::ir::lir::{Program, Slice, Space, Step};
use crate::ops::{Alias, Op};
use crate::reference::{View, run_regions};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Bytes of the arena that are not written or are freed: NaN in f32, f16 and bf16.
pub const POISON: u8 = 0xff;

/// The memory that a replay works on: a session's, without the weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayMemory {
    /// The arena, with its segments concatenated; it may be larger than the program's.
    pub arena: Vec<u8>,
    /// One byte string a state.
    pub states: Vec<Vec<u8>>,
    /// One byte string an input of the program.
    pub inputs: Vec<Vec<u8>>,
}

impl ReplayMemory {
    /// Zeroed states and inputs of a program, and its arena.
    pub fn of(program: &Program) -> ReplayMemory {
        let zeros = |bytes: u64| vec![0; bytes as usize];
        ReplayMemory {
            arena: vec![POISON; program.arena_bytes as usize],
            states: program.states.iter().map(|s| zeros(s.bytes)).collect(),
            inputs: program.inputs.iter().map(|i| zeros(i.bytes)).collect(),
        }
    }
}

/// What an operator gives that exchanges tensors with other devices; the inner `None` while those have brought none.
/// `None` for all other operators.
pub(crate) type Exchanged = Result<Option<Option<Vec<Vec<u8>>>>>;

/// Runs operators that exchange tensors.
pub(crate) type Exchange<'a> = dyn Fn(&Op, &[View<'_>]) -> Exchanged + 'a;

/// A program that is ready for replay, with the bytes that each step frees.
#[derive(Clone, Debug)]
pub struct Replay {
    frees: Vec<Vec<Range<usize>>>,
}

impl Replay {
    /// Prepares a program.
    ///
    /// # Errors
    /// `BadGraph` where its steps are not its graph's nodes.
    pub fn new(program: &Program) -> Result<Replay> {
        let lifetimes = lifetimes(program)?;
        let mut frees = vec![Vec::new(); program.steps.len()];
        for dead in &lifetimes {
            // A value that another one replaces in place frees nothing: the other one has its memory.
            let replaced = lifetimes.iter().any(|l| {
                l.from == dead.to && l.in_place == Some(dead.value) && l.offset == dead.offset
            });
            if let (false, Some(frees)) = (replaced, frees.get_mut(dead.to)) {
                frees.push(dead.offset as usize..dead.end() as usize);
            }
        }
        Ok(Replay { frees })
    }

    /// Fills the arena with [`POISON`]. Call it before step 0.
    pub fn start(&self, memory: &mut ReplayMemory) {
        memory.arena.fill(POISON);
    }

    /// Runs step `s`. `weights` has the bytes of each weight, by [`Slice::index`].
    ///
    /// # Errors
    /// `Internal` for a slice outside its memory, or a result that overlaps an operand without being in
    /// place; otherwise as [`run`](crate::reference::run). The error's place names the step.
    pub fn step(
        &self,
        program: &Program,
        s: usize,
        weights: &[&[u8]],
        memory: &mut ReplayMemory,
    ) -> Result<()> {
        self.try_step(program, s, weights, memory, &|_, _| Ok(None)).map(|_| ())
    }

    /// Runs step `s`, if it waits for no other device; gives whether it ran.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub(crate) fn try_step(
        &self,
        program: &Program,
        s: usize,
        weights: &[&[u8]],
        memory: &mut ReplayMemory,
        exchange: &Exchange<'_>,
    ) -> Result<bool> {
        let step =
            program.steps.get(s).ok_or_else(|| Error::internal(format!("there is no step {s}")))?;
        let ran = execute(program, step, weights, memory, exchange).map_err(|e| {
            let at = format!("@{}, {}", program.name, place_of(s, step));
            e.at(at)
        })?;
        if !ran {
            return Ok(false);
        }
        for range in self.frees.get(s).into_iter().flatten() {
            if let Some(bytes) = memory.arena.get_mut(range.clone()) {
                bytes.fill(POISON);
            }
        }
        Ok(true)
    }

    /// The program's outputs, after its last step.
    ///
    /// # Errors
    /// `Internal` for a slice outside its memory.
    pub fn outputs(
        &self,
        program: &Program,
        weights: &[&[u8]],
        memory: &ReplayMemory,
    ) -> Result<Vec<Vec<u8>>> {
        program
            .outputs
            .iter()
            .map(|o| {
                let bytes =
                    read(program, &o.slice, weights, memory).map_err(|e| e.at(o.name.clone()))?;
                Ok(bytes.to_vec())
            })
            .collect()
    }
}

/// Runs a whole program and returns its outputs.
///
/// # Errors
/// As [`Replay::new`] and [`Replay::step`].
pub fn replay(
    program: &Program,
    weights: &[&[u8]],
    memory: &mut ReplayMemory,
) -> Result<Vec<Vec<u8>>> {
    let ready = Replay::new(program)?;
    ready.start(memory);
    for s in 0..program.steps.len() {
        ready.step(program, s, weights, memory)?;
    }
    ready.outputs(program, weights, memory)
}

fn execute(
    program: &Program,
    step: &Step,
    weights: &[&[u8]],
    memory: &mut ReplayMemory,
    exchange: &Exchange<'_>,
) -> Result<bool> {
    overlaps(step)?;
    let operands = step
        .operands
        .iter()
        .map(|slice| Ok(View::new(&slice.ty, read(program, slice, weights, memory)?)))
        .collect::<Result<Vec<_>>>()?;
    let results = match step.part {
        None => match exchange(&step.op, &operands)? {
            Some(Some(results)) => results,
            Some(None) => return Ok(false),
            None => run_regions(&step.op, &step.regions, &operands)?,
        },
        Some(part) => {
            let whole = step.results.iter().map(|r| read(program, r, weights, memory));
            part::run(step, part, &operands, whole.collect::<Result<_>>()?)?
        }
    };
    if results.len() != step.results.len() {
        return Err(Error::internal(format!("the operator gives {} results", results.len())));
    }
    for (slice, bytes) in step.results.iter().zip(results) {
        write(program, slice, bytes, memory)?;
    }
    Ok(true)
}

/// Fails if a result overlaps an operand, unless it is a state's next version or in place.
fn overlaps(step: &Step) -> Result<()> {
    for (r, result) in step.results.iter().enumerate() {
        for (k, operand) in step.operands.iter().enumerate() {
            let apart = (result.space, result.index) != (operand.space, operand.index)
                || result.offset >= operand.offset.saturating_add(operand.bytes)
                || operand.offset >= result.offset.saturating_add(result.bytes)
                || result.bytes == 0;
            let same = result.offset == operand.offset && result.bytes == operand.bytes;
            let in_place = r == 0 && step.alias() == Alias::Elementwise { operand: k };
            let next_version = step.op.writes().contains(&(k, r));
            if !(apart || same && (in_place || next_version)) {
                return Err(Error::internal(format!(
                    "result {r} at byte {} overlaps operand {k} at byte {}",
                    result.offset, operand.offset
                )));
            }
        }
    }
    Ok(())
}

fn range(from: u64, bytes: u64) -> Range<usize> {
    // An overflowing range is outside every memory.
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    from..from.saturating_add(bytes)
}

fn outside(slice: &Slice) -> Error {
    Error::internal(format!(
        "{:?} {} has no bytes {}..{}",
        slice.space,
        slice.index,
        slice.offset,
        slice.offset.saturating_add(slice.bytes)
    ))
}

fn read<'a>(
    program: &Program,
    slice: &Slice,
    weights: &[&'a [u8]],
    memory: &'a ReplayMemory,
) -> Result<&'a [u8]> {
    let at = slice.index as usize;
    let bytes = match slice.space {
        Space::Arena => {
            let start = program.arena_start(slice).ok_or_else(|| outside(slice))?;
            let bytes = memory.arena.get(range(start, slice.bytes));
            return bytes.ok_or_else(|| outside(slice));
        }
        Space::Weight => weights.get(at).copied(),
        Space::State => memory.states.get(at).map(Vec::as_slice),
        Space::Input => memory.inputs.get(at).map(Vec::as_slice),
    };
    bytes.and_then(|b| b.get(range(slice.offset, slice.bytes))).ok_or_else(|| outside(slice))
}

fn write(
    program: &Program,
    slice: &Slice,
    bytes: Vec<u8>,
    memory: &mut ReplayMemory,
) -> Result<()> {
    let start = match slice.space {
        Space::Arena => program.arena_start(slice),
        _ => Some(slice.offset),
    };
    let memory = match slice.space {
        Space::Arena => Some(&mut memory.arena),
        Space::State => memory.states.get_mut(slice.index as usize),
        Space::Weight | Space::Input => None,
    };
    let (Some(memory), Some(start)) = (memory, start) else { return Err(outside(slice)) };
    if slice.space == Space::State && start == 0 && bytes.len() == memory.len() {
        *memory = bytes; // a whole state: moved, not copied
        return Ok(());
    }
    let to = memory.get_mut(range(start, slice.bytes)).filter(|to| to.len() == bytes.len());
    to.ok_or_else(|| outside(slice))?.copy_from_slice(&bytes);
    Ok(())
}
