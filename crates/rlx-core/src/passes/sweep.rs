//! Local rules over a graph: one walk in the order of its nodes.
//!
//! A rule sees a node whose operands are already rewritten, and what made them. It answers with a
//! value that stands for the node's result, or with another operator for the node; what else it
//! needs it emits before the node. So a chain of any length shrinks in one walk.
//!
//! **States.** A state's version, and a view of one, may be read only before the node that writes
//! it. A rule reads what its operands were made of, so later than it was read before, and readers
//! of a replaced value read its replacement later still. Neither happens with a version or a view
//! of one: [`Sweep::maker`] hides nodes that read one, and [`sweep`] refuses one as a replacement.

use crate::error::{Error, Result};
use crate::ir::mir::{Graph, Node, ValueId};
use crate::ops::{Alias, Op};
use crate::types::{Kind, Type};
use alloc::vec;
use alloc::vec::Vec;

/// What a rule makes of a node.
pub(super) enum Rewrite {
    /// Result 0 is this value.
    Value(ValueId),
    /// The node is this operator over these operands.
    Node(Op, Vec<ValueId>),
}

/// A rule: `None` where it does not match.
pub(super) type Rule = fn(&mut Sweep<'_>, &Node) -> Result<Option<Rewrite>>;

/// The graph as far as the walk has come.
pub(super) struct Sweep<'a> {
    g: &'a mut Graph,
    nodes: Vec<Node>,
    maker: Vec<Option<usize>>,
    stateful: Vec<bool>,
    uses: Vec<usize>,
    label: alloc::string::String,
}

impl Sweep<'_> {
    /// The type of a value.
    pub fn ty(&self, v: ValueId) -> &Type {
        self.g.ty(v)
    }

    /// The node that made `v`, unless it reads a state's version or a view of one.
    pub fn maker(&self, v: ValueId) -> Option<&Node> {
        let node = &self.nodes[self.maker[v.0 as usize]?];
        let reads_state = node.inputs.iter().any(|i| self.stateful[i.0 as usize]);
        (!reads_state && node.regions.is_empty()).then_some(node)
    }

    /// How often `v` is read or returned.
    pub fn uses(&self, v: ValueId) -> usize {
        self.uses[v.0 as usize]
    }

    /// A new node before the present one, under its label.
    pub fn emit(&mut self, op: impl Into<Op>, inputs: &[ValueId]) -> Result<ValueId> {
        let op = op.into();
        let operands: Vec<&Type> = inputs.iter().map(|&v| self.g.ty(v)).collect();
        let mut types = op.infer(&operands).map_err(|e| e.at(self.label.clone()))?;
        let (Some(ty), true) = (types.pop(), types.is_empty()) else {
            return Err(Error::internal("a rule emits operators of one result"));
        };
        let v = self.g.value(ty);
        self.maker.push(None);
        self.stateful.push(false);
        // Once, by the node it is emitted for; its own reads count from here.
        self.uses.push(0);
        inputs.iter().for_each(|x| self.uses[x.0 as usize] += 1);
        self.push(Node::new(op, inputs, &[v], self.label.clone()));
        Ok(v)
    }

    fn push(&mut self, node: Node) {
        for v in &node.outputs {
            self.maker[v.0 as usize] = Some(self.nodes.len());
            self.stateful[v.0 as usize] = self.g.ty(*v).kind == Kind::State;
        }
        if let Alias::View { operand, .. } = self.g.alias(&node)
            && let (Some(y), Some(x)) = (node.outputs.first(), node.inputs.get(operand))
        {
            self.stateful[y.0 as usize] |= self.stateful[x.0 as usize];
        }
        self.nodes.push(node);
    }

    /// True if the rewrite gives what the node gave, to the type.
    pub fn fits(&self, node: &Node, rewrite: &Rewrite) -> bool {
        let ty = self.ty(node.outputs[0]);
        match rewrite {
            Rewrite::Value(v) => self.ty(*v) == ty && !self.stateful[v.0 as usize],
            Rewrite::Node(op, inputs) => {
                let operands: Vec<&Type> = inputs.iter().map(|&v| self.ty(v)).collect();
                op.infer(&operands).is_ok_and(|types| types.len() == 1 && types[0] == *ty)
            }
        }
    }
}

/// Applies the first of `rules` that matches to every node of one result that has no regions and
/// writes no state, once each; returns how many nodes changed. Regions are walked too.
///
/// A rewrite whose type is not the node's is dropped: rules need not prove that symbolic sizes
/// agree.
pub(super) fn sweep(g: &mut Graph, rules: &[Rule]) -> Result<usize> {
    let mut changed = 0;
    for node in &mut g.nodes {
        for body in &mut node.regions {
            changed += sweep(body, rules)?;
        }
    }
    let nodes = core::mem::take(&mut g.nodes);
    let mut stateful = vec![false; g.types.len()];
    for p in &g.params {
        stateful[p.value.0 as usize] = g.ty(p.value).kind == Kind::State;
    }
    let mut stands: Vec<ValueId> = (0..g.types.len() as u32).map(ValueId).collect();
    let (maker, room) = (vec![None; g.types.len()], Vec::with_capacity(nodes.len()));
    let mut uses = vec![0; g.types.len()];
    let returned = g.outputs.iter().map(|o| &o.value);
    nodes.iter().flat_map(|n| &n.inputs).chain(returned).for_each(|v| uses[v.0 as usize] += 1);
    let mut s = Sweep { g, nodes: room, maker, stateful, uses, label: Default::default() };
    for mut node in nodes {
        for v in &mut node.inputs {
            *v = stands[v.0 as usize];
        }
        s.label.clone_from(&node.label);
        if node.outputs.len() == 1 && node.regions.is_empty() && node.op.writes().is_empty() {
            for rule in rules {
                let Some(rewrite) = rule(&mut s, &node)? else { continue };
                if !s.fits(&node, &rewrite) {
                    continue;
                }
                changed += 1;
                node.inputs.iter().for_each(|x| s.uses[x.0 as usize] -= 1);
                match rewrite {
                    Rewrite::Value(v) => {
                        let y = node.outputs[0];
                        s.uses[v.0 as usize] += s.uses[y.0 as usize];
                        stands[y.0 as usize] = v;
                    }
                    Rewrite::Node(op, inputs) => {
                        inputs.iter().for_each(|x| s.uses[x.0 as usize] += 1);
                        (node.op, node.inputs) = (op, inputs);
                    }
                }
                break;
            }
            if stands[node.outputs[0].0 as usize] != node.outputs[0] {
                continue;
            }
        }
        s.push(node);
    }
    let nodes = s.nodes;
    g.nodes = nodes;
    for o in &mut g.outputs {
        // Values that rules emitted stand for themselves.
        o.value = stands.get(o.value.0 as usize).copied().unwrap_or(o.value);
    }
    Ok(changed)
}
