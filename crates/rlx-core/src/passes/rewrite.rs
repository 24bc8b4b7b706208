//! What fusions end in: a node becomes a fused operator, and the nodes that it stands for go.

use crate::ir::mir::{Graph, Node, ValueId};
use crate::ops::Op;
use alloc::vec;
use alloc::vec::Vec;

/// A walk over a graph that fuses. Places of nodes hold until the end, when those that were absorbed
/// go; makers and readers are those from before the walk.
pub(super) struct Rewrite<'g> {
    /// The graph as it is by now.
    pub g: &'g mut Graph,
    definers: Vec<Option<usize>>,
    users: Vec<Vec<usize>>,
    gone: Vec<bool>,
    made: usize,
}

impl<'g> Rewrite<'g> {
    pub(super) fn new(g: &'g mut Graph) -> Self {
        let (definers, users, gone) = (g.definers(), g.users(), vec![false; g.nodes.len()]);
        Self { g, definers, users, gone, made: 0 }
    }

    /// The node that makes a value; none for a parameter.
    pub(super) fn maker(&self, v: ValueId) -> Option<usize> {
        self.definers[v.0 as usize]
    }

    /// The nodes that read a value, in their order.
    pub(super) fn readers(&self, v: ValueId) -> &[usize] {
        &self.users[v.0 as usize]
    }

    /// Whether one node reads a value and the graph does not return it: then it may vanish.
    pub(super) fn alone(&self, v: ValueId) -> bool {
        self.readers(v).len() == 1 && !self.g.is_output(v)
    }

    /// Whether a node was absorbed.
    pub(super) fn is_gone(&self, at: usize) -> bool {
        self.gone[at]
    }

    /// Whether an operator on these operands gives what these values are.
    pub(super) fn gives(&self, op: &Op, inputs: &[ValueId], outputs: &[ValueId]) -> bool {
        let types = |all: &[ValueId]| all.iter().map(|&v| self.g.ty(v)).collect::<Vec<_>>();
        op.infer(&types(inputs)).is_ok_and(|results| results.iter().eq(types(outputs)))
    }

    /// Makes node `at` that operator and absorbs the others named. Results and label stay; where they
    /// must not, change them in the node.
    pub(super) fn replace(
        &mut self,
        at: usize,
        op: impl Into<Op>,
        inputs: Vec<ValueId>,
        absorb: &[usize],
    ) -> &mut Node {
        for &other in absorb.iter().filter(|&&other| other != at) {
            self.gone[other] = true;
        }
        self.made += 1;
        let node = &mut self.g.nodes[at];
        (node.op, node.inputs) = (op.into(), inputs);
        node
    }

    /// Removes what was absorbed; returns how many nodes were replaced.
    pub(super) fn finish(self) -> usize {
        remove_nodes(self.g, &self.gone);
        self.made
    }
}

/// Removes the nodes whose places are marked.
pub(super) fn remove_nodes(g: &mut Graph, gone: &[bool]) {
    let mut marks = gone.iter();
    g.nodes.retain(|_| marks.next() != Some(&true));
}
