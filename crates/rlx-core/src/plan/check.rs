//! Proves that a program's plan keeps a target's rules, without using the planner's results.
//!
//! 1. Steps are the graph's nodes in order; each value is read where it was written; a state's next
//!    version is at the state's place.
//! 2. Every slice is aligned and within its memory; every memory, and every segment of the arena, is
//!    within the target's limits. Views lie at words and at whole elements.
//! 3. No two values of the arena overlap while both live. A result may take its operand's place only
//!    if it is computed element by element, at the same offset, by the operand's last reader.
//! 4. A step touches at most as many memories as the target binds.
//! 5. No step reads a row that another step may skip: `check_rows.rs`.

use super::check_rows::check_rows;
use super::lifetimes::{Lifetime, lifetimes, name_of, place_of};
use super::liveness::view_alignment;
use super::{ALIGNMENT, WeightPlan};
use crate::error::{Code, Error, Result};
use crate::ir::lir::{Program, Slice, Space};
use crate::sorted::Set;
use crate::target::Limits;
use alloc::format;
use alloc::string::String;

/// Checks a program whose weights are bound to `plan`.
///
/// # Errors
/// `BadGraph` naming the step, its label and the values that break a rule; `Unsupported` for a
/// memory above `limits`, or a step that touches too many of them.
pub fn check(program: &Program, plan: &WeightPlan, limits: &Limits) -> Result<()> {
    check_inner(program, plan, limits).map_err(|e| {
        let at = if e.at.is_empty() { String::new() } else { format!(", {}", e.at) };
        e.at(format!("@{}{at}", program.name))
    })
}

fn check_inner(program: &Program, plan: &WeightPlan, limits: &Limits) -> Result<()> {
    memories(program, plan, limits)?;
    let cx = Checker { program, plan };
    for (s, step) in program.steps.iter().enumerate() {
        let at = place_of(s, step);
        for (k, slice) in step.operands.iter().enumerate() {
            cx.slice(slice, &format!("operand {k}")).map_err(|e| e.at(at.clone()))?;
        }
        for (k, slice) in step.results.iter().enumerate() {
            cx.slice(slice, &format!("result {k}")).map_err(|e| e.at(at.clone()))?;
        }
        let bound: Set<(Space, u32)> = step
            .operands
            .iter()
            .chain(&step.results)
            .filter(|x| x.bytes > 0)
            .map(|x| cx.memory(x))
            .collect();
        if bound.len() > limits.storage_buffers as usize {
            return Err(Error::new(
                Code::Unsupported,
                format!(
                    "the step touches {} memories, the device binds {}",
                    bound.len(),
                    limits.storage_buffers
                ),
            )
            .at(at));
        }
    }
    for o in &program.outputs {
        cx.slice(&o.slice, &format!("output {}", o.name))?;
    }
    let lifetimes = lifetimes(program)?;
    check_rows(program)?;
    for (i, b) in lifetimes.iter().enumerate() {
        if !program.alignment.is_power_of_two()
            || program.alignment < ALIGNMENT
            || !b.offset.is_multiple_of(program.alignment)
        {
            return Err(Error::bad_graph(format!(
                "{} is at arena byte {}, no multiple of {}",
                name_of(&program.graph, b.value),
                b.offset,
                program.alignment.max(ALIGNMENT)
            ))
            .at(place_of(b.from, &program.steps[b.from])));
        }
        // Lifetimes are in the order of writes: `a` is written before `b`.
        for a in &lifetimes[..i] {
            let together = b.from <= a.to;
            let overlap = a.offset < b.end() && b.offset < a.end();
            if together && overlap && !may_replace(a, b) {
                let g = &program.graph;
                return Err(Error::bad_graph(format!(
                    "{} at arena bytes {}..{} overlaps {} at {}..{}, which is needed until {}",
                    name_of(g, b.value),
                    b.offset,
                    b.end(),
                    name_of(g, a.value),
                    a.offset,
                    a.end(),
                    match program.steps.get(a.to) {
                        Some(step) => place_of(a.to, step),
                        None => "the end".into(),
                    }
                ))
                .at(place_of(b.from, &program.steps[b.from])));
            }
        }
    }
    Ok(())
}

/// True if `b` is `a` changed in place.
fn may_replace(a: &Lifetime, b: &Lifetime) -> bool {
    b.in_place == Some(a.value) && a.to == b.from && a.offset == b.offset && a.bytes == b.bytes
}

/// Checks that every memory is within the limits, and every weight within its buffer.
fn memories(program: &Program, plan: &WeightPlan, limits: &Limits) -> Result<()> {
    let most = limits.binding.min(limits.buffer);
    let fits = |what: &str, name: &str, bytes: u64| {
        if bytes <= most {
            return Ok(());
        }
        Err(Error::new(
            Code::Unsupported,
            format!("{what}{name} has {bytes} bytes, the device binds at most {most}"),
        )
        .hint("use a smaller context or chunk, or a device with larger bindings"))
    };
    if program.arena_segments.iter().sum::<u64>() != program.arena_bytes {
        return Err(Error::bad_graph("the arena is not as large as its segments"));
    }
    for (i, &bytes) in program.arena_segments.iter().enumerate() {
        match program.arena_segments.len() {
            1 => fits("the arena", "", bytes)?,
            _ => fits("arena segment ", &format!("{i}"), bytes)?,
        }
        if !bytes.is_multiple_of(program.alignment) {
            return Err(Error::bad_graph(format!("arena segment {i} has {bytes} bytes")));
        }
    }
    for s in &program.states {
        fits("state ", &s.name, s.bytes)?;
    }
    for i in &program.inputs {
        fits("input ", &i.name, i.bytes)?;
    }
    for (i, b) in plan.buffers.iter().enumerate() {
        fits("weight buffer ", &format!("{i}"), b.bytes)?;
    }
    for e in &plan.entries {
        let buffer = plan.buffers.get(e.buffer as usize).map_or(0, |b| b.bytes);
        if !e.offset.is_multiple_of(limits.alignment.max(4))
            || e.offset.checked_add(e.bytes).is_none_or(|end| end > buffer)
        {
            return Err(Error::bad_graph(format!(
                "weight {} of {} bytes at {} does not fit buffer {} of {buffer} bytes, aligned to {}",
                e.name, e.bytes, e.offset, e.buffer, limits.alignment
            )));
        }
    }
    Ok(())
}

struct Checker<'a> {
    program: &'a Program,
    plan: &'a WeightPlan,
}

impl Checker<'_> {
    /// The memory that a device binds for a slice: a weight's buffer, not the weight.
    fn memory(&self, slice: &Slice) -> (Space, u32) {
        match slice.space {
            Space::Weight => {
                let entry = self.plan.entries.get(slice.index as usize);
                (Space::Weight, entry.map_or(u32::MAX, |e| e.buffer))
            }
            space => (space, slice.index),
        }
    }

    fn slice(&self, slice: &Slice, what: &str) -> Result<()> {
        let p = self.program;
        let at = slice.index as usize;
        let (name, size) = match slice.space {
            Space::Arena if slice.bytes == 0 => return Ok(()),
            Space::Arena => ("the arena", p.arena_segments.get(at).copied()),
            Space::Weight => ("its weight", self.plan.entries.get(at).map(|e| e.bytes)),
            Space::State => ("its state", p.states.get(at).map(|s| s.bytes)),
            Space::Input => ("its input", p.inputs.get(at).map(|i| i.bytes)),
        };
        let Some(size) = size else {
            return Err(Error::bad_graph(format!("{what} is in {name} {at}, which is not there")));
        };
        let alignment = match slice.space {
            Space::Arena | Space::Weight => view_alignment(&slice.ty),
            Space::State | Space::Input => 4,
        };
        if slice.bytes != slice.ty.bytes()? {
            return Err(Error::bad_graph(format!(
                "{what} is {} and has {} bytes",
                slice.ty, slice.bytes
            )));
        }
        if !slice.offset.is_multiple_of(alignment) {
            return Err(Error::bad_graph(format!(
                "{what} is at byte {} of {name}, no multiple of {alignment}",
                slice.offset
            )));
        }
        if slice.offset.checked_add(slice.bytes).is_none_or(|end| end > size) {
            return Err(Error::bad_graph(format!(
                "{what} of {} bytes at {} does not fit {name} of {size} bytes",
                slice.bytes, slice.offset
            )));
        }
        Ok(())
    }
}
