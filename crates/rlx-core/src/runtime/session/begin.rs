//! Where a run of a graph that reads a control block begins: at the first position, with nothing remembered of
//! the run before.
//!
//! A generation goes on from step to step and is the [`Engine`](crate::runtime::generate::Engine)'s. A session asks
//! such a graph about one text at a time: its rows are the text's tokens, all of them.

use crate::error::{Error, Result};
use crate::ir::lir::{ControlDecl, StateDecl};
use crate::ir::mir::Graph;
use crate::ops::Op;
use crate::runtime::device::{Write, WriteTo};
use crate::sample::Control;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// What a run of the graph writes first.
pub(super) struct Begin {
    /// Positions of the smallest cache; none where there is no cache.
    capacity: Option<u64>,
    /// States that a text begins with as zeros, and their bytes. Rows of a cache are written before they are read.
    cleared: Vec<(u32, u64)>,
}

/// The number of the cache that the operator writes, among its operands.
fn caches(op: &Op) -> usize {
    match op {
        Op::KvWrite(_) | Op::RopeKvWrite(_) | Op::RopeAttentionSplit(_) => op.writes().len(),
        _ => 0,
    }
}

impl Begin {
    /// Of a graph with these states; `None` where it reads no control block.
    pub fn of(g: &Graph, states: &[StateDecl]) -> Option<Begin> {
        let mut control = None;
        let mut written = Vec::new();
        for node in &g.nodes {
            control = control.or(node.op.control(node.inputs.len()).map(|i| node.inputs[i]));
            if caches(&node.op) > 0 {
                written.extend(node.op.writes().iter().map(|(operand, _)| node.inputs[*operand]));
            }
        }
        let control = control?;
        let capacity = written.iter().filter_map(|v| g.ty(*v).shape.0.get(1)?.as_static()).min();
        let kept = |name: &str| {
            g.params
                .iter()
                .any(|p| p.name == name && (p.value == control || written.contains(&p.value)))
        };
        let cleared = states.iter().zip(0..).filter(|(s, _)| !kept(&s.name));
        Some(Begin { capacity, cleared: cleared.map(|(s, i)| (i, s.bytes)).collect() })
    }

    /// The writes of a run whose program has this control block.
    ///
    /// # Errors
    /// `Usage` for more tokens than the caches have positions.
    pub fn writes(&self, control: &ControlDecl) -> Result<Vec<Write>> {
        let tokens = control.tokens;
        let capacity = self.capacity.unwrap_or(tokens);
        if tokens > capacity {
            let what = format!("a text of {tokens} tokens: the caches have {capacity} positions");
            return Err(Error::usage(what));
        }
        let word = |n: u64| {
            u32::try_from(n).map_err(|_| Error::usage(format!("{n} tokens are more than 2^32 - 1")))
        };
        let (len, capacity) = (word(tokens)?, word(capacity)?);
        let block = Control { len, capacity, limit: u32::MAX, ..Control::default() };
        let bytes = block.to_words().iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut writes = vec![Write { to: WriteTo::State(control.state), offset: 0, bytes }];
        writes.extend(self.cleared.iter().map(|&(i, n)| Write {
            to: WriteTo::State(i),
            offset: 0,
            bytes: vec![0; n as usize],
        }));
        Ok(writes)
    }
}
