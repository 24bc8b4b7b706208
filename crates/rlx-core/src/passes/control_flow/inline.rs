//! A graph under reconstruction, into which bodies are copied.

use crate::error::Result;
use crate::ir::mir::{Graph, Node, ValueId};
use crate::ops::{Alias, Op};
use crate::sorted::Map;
use crate::types::{DType, Kind, Scalar, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The graph as far as it is rebuilt.
pub(super) struct Inline<'a> {
    g: &'a mut Graph,
    nodes: Vec<Node>,
    stands: Map<ValueId, ValueId>,
    /// Constants of one integer or bool.
    constants: Map<ValueId, i64>,
    /// States' versions and views of them.
    stateful: Vec<ValueId>,
}

impl<'a> Inline<'a> {
    /// Begins with no nodes and room for `n`.
    pub fn new(g: &'a mut Graph, n: usize) -> Self {
        let params = g.params.iter().map(|p| p.value);
        let stateful = params.filter(|&v| g.ty(v).kind == Kind::State).collect();
        let (stands, constants) = (Map::new(), Map::new());
        Inline { g, nodes: Vec::with_capacity(n), stands, constants, stateful }
    }

    /// Nodes so far.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// What `v` has become.
    pub fn stands(&self, v: ValueId) -> ValueId {
        self.stands.get(&v).copied().unwrap_or(v)
    }

    /// The type of a value.
    pub fn ty(&self, v: ValueId) -> &Type {
        self.g.ty(v)
    }

    /// True for a version of a state and a view of one.
    pub fn stateful(&self, v: ValueId) -> bool {
        self.stateful.contains(&v)
    }

    /// The integer, or bool as 0 or 1, that `v` is known to be.
    pub fn constant(&self, v: ValueId) -> Option<i64> {
        self.constants.get(&v).copied()
    }

    /// Appends a node.
    pub fn push(&mut self, node: Node) {
        for &v in &node.outputs {
            if self.g.ty(v).kind == Kind::State {
                self.stateful.push(v);
            }
        }
        if let Alias::View { operand, .. } = self.g.alias(&node)
            && self.stateful(node.inputs[operand])
        {
            self.stateful.push(node.outputs[0]);
        }
        if let Some(n) = integer(&node.op) {
            self.constants.insert(node.outputs[0], n);
        }
        self.nodes.push(node);
    }

    /// Makes `by` stand for `values`.
    pub fn replace(&mut self, values: &[ValueId], by: &[ValueId]) {
        self.stands.extend(values.iter().copied().zip(by.iter().copied()));
    }

    /// A new node of one result at the end of `nodes`.
    pub fn emit(
        &mut self,
        nodes: &mut Vec<Node>,
        op: impl Into<Op>,
        inputs: &[ValueId],
        label: &str,
    ) -> Result<ValueId> {
        let op = op.into();
        let operands: Vec<&Type> = inputs.iter().map(|&v| self.g.ty(v)).collect();
        let types = op.infer(&operands).map_err(|e| e.at(String::from(label)))?;
        let outputs: Vec<ValueId> = types.into_iter().map(|ty| self.g.value(ty)).collect();
        nodes.push(Node::new(op, inputs, &outputs, label));
        Ok(outputs[0])
    }

    /// Copies a body over `operands` to the end of `nodes`; returns what it gives. Labels become
    /// `outer/inner`.
    pub fn inline(
        &mut self,
        nodes: &mut Vec<Node>,
        body: &Graph,
        operands: &[ValueId],
        outer: &str,
    ) -> Vec<ValueId> {
        let mut values: Map<ValueId, ValueId> =
            body.params.iter().map(|p| p.value).zip(operands.iter().copied()).collect();
        for node in &body.nodes {
            let mut copy = node.clone();
            copy.inputs.iter_mut().for_each(|v| *v = values[v]);
            for v in &mut copy.outputs {
                let new = self.g.value(body.ty(*v).clone());
                values.insert(*v, new);
                *v = new;
            }
            copy.label = match (outer, node.label.as_str()) {
                ("", inner) => inner.into(),
                (outer, "") => outer.into(),
                (outer, inner) => format!("{outer}/{inner}"),
            };
            nodes.push(copy);
        }
        body.outputs.iter().map(|o| values[&o.value]).collect()
    }

    /// Hands the nodes to the graph.
    pub fn finish(self) {
        for o in &mut self.g.outputs {
            o.value = self.stands.get(&o.value).copied().unwrap_or(o.value);
        }
        self.g.nodes = self.nodes;
    }
}

/// The value of a constant of one integer or bool.
pub(super) fn integer(op: &Op) -> Option<i64> {
    let Op::Constant(c) = op else { return None };
    let DType::Scalar(scalar) = c.ty.dtype else { return None };
    let bytes = &c.data[..];
    Some(match scalar {
        Scalar::I64 => i64::from_le_bytes(bytes.try_into().ok()?),
        Scalar::I32 => i32::from_le_bytes(bytes.try_into().ok()?).into(),
        Scalar::U32 => u32::from_le_bytes(bytes.try_into().ok()?).into(),
        Scalar::Bool => <[u8; 1]>::try_from(bytes).ok()?[0].into(),
        _ => return None,
    })
}
