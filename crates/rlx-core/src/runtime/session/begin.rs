//! How a run of a graph with a control block begins: at the first position, and with states that remember nothing of
//! the run before.
//!
//! The [`Engine`](crate::runtime::generate::Engine) generates text, step after step. A session asks such a graph about
//! one whole text at a time: each row is one token of the text.

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
    /// States that are zeroed before each text, with their sizes in bytes. A cache is not one of them: its rows are
    /// written before they are read.
    cleared: Vec<(u32, u64)>,
}

/// Whether the states that the operator writes are caches.
fn writes_caches(op: &Op) -> bool {
    matches!(op, Op::KvWrite(_) | Op::RopeKvWrite(_) | Op::RopeAttentionSplit(_))
}

impl Begin {
    /// Of a graph with these states; `None` where it reads no control block.
    pub fn of(g: &Graph, states: &[StateDecl]) -> Option<Begin> {
        let mut control = None;
        let mut written = Vec::new();
        for node in &g.nodes {
            control = control.or(node.op.control(node.inputs.len()).map(|i| node.inputs[i]));
            if writes_caches(&node.op) {
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
        writes.extend(self.cleared.iter().map(|&(i, n)| Write::zeros(i, n)));
        Ok(writes)
    }
}
