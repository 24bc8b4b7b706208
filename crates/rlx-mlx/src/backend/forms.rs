//! A graph as several programs, of which the one runs that does the least by what the host knows of a step: whether the
//! best token is taken, and which rows of the caches may be in use.

use crate::lower::{Form, Lowered, lower};
use crate::shim::{Program, Shim};
use rlx_core::Result;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::ValueId;
use std::collections::HashMap;
use std::rc::Rc;

/// Rows of a cache that attention reads at least: with fewer there is nothing to gain.
const FEWEST: i64 = 64;

/// Where the control block of a graph's attention stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    /// The first array of its argument.
    pub argument: usize,
    /// Its last version among the results.
    pub result: usize,
    /// Rows of a submission at most.
    rows: i64,
    /// Rows of the largest cache.
    capacity: i64,
}

/// A graph, and its programs that were asked for.
pub(super) struct Forms {
    graph: Graph,
    target: Target,
    /// Whether MLX's own compiler traces the programs.
    compiles: bool,
    made: HashMap<Form, Rc<Program>>,
    /// The array with the sampling parameters, where they are a state.
    pub sampling: Option<usize>,
    pub control: Option<Control>,
    pub results: usize,
}

impl Forms {
    /// The forms of a graph, with the program of any submission.
    ///
    /// # Errors
    /// `DeviceLost` for a tape that the shim does not take.
    pub fn new(
        shim: &Rc<Shim>,
        (graph, target): (Graph, Target),
        lowered: &Lowered,
        compiles: bool,
    ) -> Result<Forms> {
        let program = shim.program(&lowered.words, compiles)?;
        let made = HashMap::from([(Form::default(), Rc::new(program))]);
        let array = |argument: usize| lowered.arguments[..argument].iter().sum();
        let sampling = graph.nodes.iter().find(|n| matches!(n.op, Op::Sample(_)));
        let sampling = sampling.and_then(|n| state(&graph, *n.inputs.get(1)?)).map(array);
        let control = control(&graph, array);
        Ok(Forms { graph, target, compiles, made, sampling, control, results: lowered.results })
    }

    /// The form for a submission behind `past` rows at most; `None`: nobody knows.
    pub fn form(&self, greedy: bool, past: Option<i64>) -> Form {
        let positions = self.control.zip(past).and_then(|(control, past)| control.positions(past));
        Form { greedy, positions }
    }

    /// The program of a form.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn program(&mut self, shim: &Rc<Shim>, form: Form) -> Result<Rc<Program>> {
        if let Some(program) = self.made.get(&form) {
            return Ok(program.clone());
        }
        let words = lower(&self.graph, &self.target, form)?.words;
        let program = Rc::new(shim.program(&words, self.compiles)?);
        self.made.insert(form, program.clone());
        Ok(program)
    }
}

/// The argument that a value is, where it is a state.
fn state(graph: &Graph, value: ValueId) -> Option<usize> {
    graph.params.iter().position(|p| p.value == value && p.kind == ParamKind::State)
}

/// The control block of attention over caches that are no rings; `None` where there is not one for all.
fn control(graph: &Graph, array: impl Fn(usize) -> usize) -> Option<Control> {
    let size = |value: ValueId, axis: usize| {
        graph.ty(value).shape.0.get(axis)?.as_static().and_then(|n| i64::try_from(n).ok())
    };
    let mut found: Option<(usize, i64, i64)> = None;
    for node in &graph.nodes {
        let Op::Attention(op) = &node.op else { continue };
        if op.ring {
            continue;
        }
        let [q, k, _, ctl, ..] = node.inputs[..] else { return None };
        let (at, rows, capacity) = (state(graph, ctl)?, size(q, 0)?, size(k, 1)?);
        found = match found {
            None => Some((at, rows, capacity)),
            Some((other, r, c)) if other == at => Some((at, rows.max(r), capacity.max(c))),
            Some(_) => return None,
        };
    }
    let (at, rows, capacity) = found?;
    let last = graph.final_states().iter().position(|s| s.0 == at)?;
    let result = graph.outputs.len() + last;
    Some(Control { argument: array(at), result, rows, capacity })
}

impl Control {
    /// Rows of a cache that attention of a submission behind `past` rows may see, where that is not the whole cache.
    fn positions(&self, past: i64) -> Option<i64> {
        let held = self.behind(past).max(FEWEST);
        // Sizes are an eighth to a quarter apart, so that a long answer needs few programs.
        let step = 1 << (held.ilog2() - 2);
        let held = held.checked_add(step - 1)? / step * step;
        (held < self.capacity).then_some(held)
    }

    /// Rows that are there at most behind a submission that had `past`.
    pub fn behind(&self, past: i64) -> i64 {
        past.saturating_add(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_reads_what_may_be_there_and_little_more() {
        let of = |rows| Control { argument: 0, result: 0, rows, capacity: 1024 };
        for rows in [1, 16, 256] {
            for past in 0..1024 - rows {
                let (needed, read) = (past + rows, of(rows).positions(past).unwrap_or(1024));
                assert!(read >= needed, "{read} of {needed}");
                assert!(read <= (needed + needed / 4).max(FEWEST), "{read} for {needed}");
            }
        }
        let sizes: std::collections::BTreeSet<_> =
            (0..1023).map(|past| of(1).positions(past)).collect();
        assert_eq!(sizes.len(), 17);
        assert_eq!([1023, 5000, i64::MAX].map(|past| of(1).positions(past)), [None; 3]);
    }
}
