//! MIR: an SSA graph of operators over typed values, in the order they run.
//!
//! A graph's parameters are inputs, weights and states; a node has 1..n results, each with its own
//! type. States are linear: `%k1 = kv_write %k0, …` consumes `%k0`, and the graph returns each
//! state's last version. The rules are in [`verify`](super::verify).

use crate::error::{Error, Result};
use crate::ops::{Alias, Body, Emit, Op, Signature};
pub use crate::types::ValueId;
use crate::types::{Binding, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ParamKind {
    /// Written by the host before a step.
    Input,
    /// A tensor of the model file, by its name there.
    Weight,
    /// Lives on the device between steps.
    State,
}

/// A parameter of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Name: of the tensor in the file, of the state, of the input.
    pub name: String,
    /// What it is.
    pub kind: ParamKind,
    /// Its value; for a state, the version before the step.
    pub value: ValueId,
}

/// An operator with its operands and results.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// Operands.
    pub inputs: Vec<ValueId>,
    /// Results.
    pub outputs: Vec<ValueId>,
    /// Bodies of control flow, in the order the operator names them; empty for all others.
    pub regions: Vec<Graph>,
    /// Where it comes from: `blk.0.attn_q`.
    pub label: String,
}

impl Node {
    /// A node without regions.
    pub fn new(
        op: impl Into<Op>,
        inputs: &[ValueId],
        outputs: &[ValueId],
        label: impl Into<String>,
    ) -> Node {
        Node {
            op: op.into(),
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            regions: Vec::new(),
            label: label.into(),
        }
    }
}

/// A named result of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// What the host calls it.
    pub name: String,
    /// The value.
    pub value: ValueId,
}

/// A function: parameters, nodes in order, results.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Graph {
    /// `decode`, `prefill`.
    pub name: String,
    /// Parameters.
    pub params: Vec<Param>,
    /// Nodes; each uses only what stands before it.
    pub nodes: Vec<Node>,
    /// Type of every value, by id. Values may be unused after a pass.
    pub types: Vec<Type>,
    /// Results.
    pub outputs: Vec<Output>,
}

impl Graph {
    /// An empty graph.
    pub fn new(name: &str) -> Self {
        Graph { name: name.into(), ..Self::default() }
    }

    /// A new value of type `ty`, not yet defined by anything.
    pub fn value(&mut self, ty: Type) -> ValueId {
        self.types.push(ty);
        ValueId(self.types.len() as u32 - 1)
    }

    /// Adds a parameter.
    pub fn param(&mut self, kind: ParamKind, name: &str, ty: Type) -> ValueId {
        let value = self.value(ty);
        self.params.push(Param { name: name.into(), kind, value });
        value
    }

    /// The parameter of that kind and name, added on first use.
    ///
    /// # Errors
    /// `BadGraph` if it is there with another type.
    pub fn param_once(&mut self, kind: ParamKind, name: &str, ty: Type) -> Result<ValueId> {
        match self.params.iter().find(|p| p.kind == kind && p.name == name) {
            Some(p) if *self.ty(p.value) == ty => Ok(p.value),
            Some(p) => {
                Err(Error::bad_graph(format!("{name} is used as {ty} and as {}", self.ty(p.value))))
            }
            None => Ok(self.param(kind, name, ty)),
        }
    }

    /// Appends a node; its results have the types the operator's rule says.
    ///
    /// # Errors
    /// `BadGraph` from the type rule, with the label as place.
    pub fn push(
        &mut self,
        op: impl Into<Op>,
        inputs: &[ValueId],
        label: &str,
    ) -> Result<Vec<ValueId>> {
        self.push_regions(op, inputs, Vec::new(), label)
    }

    /// [`push`](Self::push) of control flow with its bodies.
    ///
    /// # Errors
    /// As `push`.
    pub fn push_regions(
        &mut self,
        op: impl Into<Op>,
        inputs: &[ValueId],
        regions: Vec<Graph>,
        label: &str,
    ) -> Result<Vec<ValueId>> {
        let op = op.into();
        let operands: Vec<&Type> = inputs.iter().map(|&v| self.ty(v)).collect();
        let bodies: Vec<Signature> = regions.iter().map(Graph::signature).collect();
        let types = op.infer_regions(&operands, &bodies).map_err(|e| e.at(label))?;
        let outputs: Vec<ValueId> = types.into_iter().map(|t| self.value(t)).collect();
        let node = Node::new(op, inputs, &outputs, label);
        self.nodes.push(Node { regions, ..node });
        Ok(outputs)
    }

    /// What result 0 of a node may share with an operand.
    pub fn alias(&self, node: &Node) -> Alias {
        let operands: Vec<&Type> = node.inputs.iter().map(|&v| self.ty(v)).collect();
        node.op.alias(&operands)
    }

    /// Types of the parameters and results, as control flow sees a body.
    pub fn signature(&self) -> Signature {
        Signature {
            params: self.params.iter().map(|p| self.ty(p.value).clone()).collect(),
            results: self.outputs.iter().map(|o| self.ty(o.value).clone()).collect(),
        }
    }

    /// [`push`](Self::push) of an operator with one result.
    ///
    /// # Errors
    /// As `push`.
    pub fn push1(&mut self, op: impl Into<Op>, inputs: &[ValueId], label: &str) -> Result<ValueId> {
        Ok(self.push(op, inputs, label)?[0])
    }

    /// Names a result.
    pub fn output(&mut self, name: &str, value: ValueId) {
        self.outputs.push(Output { name: name.into(), value });
    }

    /// The type of a value of this graph.
    pub fn ty(&self, v: ValueId) -> &Type {
        &self.types[v.0 as usize]
    }

    /// Index of the node that defines each value; `None` for parameters and unused values.
    pub fn definers(&self) -> Vec<Option<usize>> {
        let mut out = vec![None; self.types.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            for v in &node.outputs {
                out[v.0 as usize] = Some(i);
            }
        }
        out
    }

    /// Indices of the nodes that read each value, ascending; an index occurs once an operand.
    pub fn users(&self) -> Vec<Vec<usize>> {
        let mut out = vec![Vec::new(); self.types.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            for v in &node.inputs {
                out[v.0 as usize].push(i);
            }
        }
        out
    }

    /// True if the graph returns `v`.
    pub fn is_output(&self, v: ValueId) -> bool {
        self.outputs.iter().any(|o| o.value == v)
    }

    /// True for a weight, and for what nothing but weights and constants make.
    pub fn is_fixed(&self, v: ValueId) -> bool {
        match self.nodes.iter().find(|n| n.outputs.contains(&v)) {
            Some(node) => node.inputs.iter().all(|&x| self.is_fixed(x)),
            None => self.params.iter().any(|p| p.value == v && p.kind == ParamKind::Weight),
        }
    }

    /// Names of the symbols in the types of parameters and results, regions too, sorted and unique.
    pub fn symbols(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.add_symbols(&mut out);
        out
    }

    fn add_symbols(&self, out: &mut Vec<String>) {
        let params = self.params.iter().map(|p| p.value);
        for v in params.chain(self.nodes.iter().flat_map(|n| n.outputs.iter().copied())) {
            self.ty(v).symbols(out);
        }
        for body in self.nodes.iter().flat_map(|n| &n.regions) {
            body.add_symbols(out);
        }
    }

    /// The last version of every state, in the order of the parameters: `(parameter, value)`.
    pub fn final_states(&self) -> Vec<(usize, ValueId)> {
        let mut last: Vec<(usize, ValueId)> = self
            .params
            .iter()
            .enumerate()
            .filter(|(_, p)| p.kind == ParamKind::State)
            .map(|(i, p)| (i, p.value))
            .collect();
        for node in &self.nodes {
            for &(operand, result) in node.op.writes() {
                for entry in &mut last {
                    if entry.1 == node.inputs[operand] {
                        entry.1 = node.outputs[result];
                    }
                }
            }
        }
        last
    }

    /// The graph with its values numbered as its text would be read back: parameters, then results
    /// in order; values that nothing defines are gone. Equal text, equal graph.
    #[must_use]
    pub fn renumbered(&self) -> Graph {
        let mut out = Graph::new(&self.name);
        let mut ids: Vec<Option<ValueId>> = vec![None; self.types.len()];
        let new = |ids: &[Option<ValueId>], v: &ValueId| {
            // What nothing defines stays outside, for the verifier to find.
            ids.get(v.0 as usize).copied().flatten().unwrap_or(ValueId(u32::MAX))
        };
        for p in &self.params {
            let value = out.param(p.kind, &p.name, self.ty(p.value).clone());
            ids[p.value.0 as usize] = Some(value);
        }
        for node in &self.nodes {
            let inputs = node.inputs.iter().map(|v| new(&ids, v)).collect();
            for v in &node.outputs {
                ids[v.0 as usize] = Some(out.value(self.ty(*v).clone()));
            }
            out.nodes.push(Node {
                op: node.op.clone(),
                inputs,
                outputs: node.outputs.iter().map(|v| new(&ids, v)).collect(),
                regions: node.regions.iter().map(Graph::renumbered).collect(),
                label: node.label.clone(),
            });
        }
        out.outputs = self
            .outputs
            .iter()
            .map(|o| Output { name: o.name.clone(), value: new(&ids, &o.value) })
            .collect();
        out
    }

    /// The graph with symbols bound; types are inferred again, in regions too. Symbols that do not
    /// occur are left out: [`DimBinding::only`](crate::types::DimBinding::only) refuses them.
    ///
    /// # Errors
    /// `BadGraph` if a bound size contradicts a type rule, with both types, the node's label as
    /// place, and what was bound as hint.
    pub fn specialize(&self, name: &str, binding: &Binding) -> Result<Graph> {
        let mut out = self.clone();
        out.name = name.into();
        for p in &out.params {
            let at = p.value.0 as usize;
            let named = |e: Error| e.at(format!("%{}", p.name));
            out.types[at] = out.types[at].bind(binding).map_err(named)?;
        }
        for i in 0..out.nodes.len() {
            let node = &mut out.nodes[i];
            node.op.bind(binding).map_err(|e| e.at(node.label.clone()))?;
            for body in &mut node.regions {
                *body = body.specialize(&body.name, binding)?;
            }
            out.infer_node(i).map_err(|e| {
                let sizes: Vec<String> =
                    binding.iter().map(|(s, n)| format!("{s} = {n}")).collect();
                if e.hint.is_empty() { e.hint(format!("with {}", sizes.join(", "))) } else { e }
            })?;
        }
        Ok(out)
    }

    /// Types of node `i`'s results from its operands'.
    ///
    /// # Errors
    /// As the operator's type rule.
    pub fn infer_node(&mut self, i: usize) -> Result<()> {
        let node = &self.nodes[i];
        let operands: Vec<&Type> = node.inputs.iter().map(|&v| self.ty(v)).collect();
        let bodies: Vec<Signature> = node.regions.iter().map(Graph::signature).collect();
        let types =
            node.op.infer_regions(&operands, &bodies).map_err(|e| e.at(node.label.clone()))?;
        for (v, ty) in self.nodes[i].outputs.clone().into_iter().zip(types) {
            self.types[v.0 as usize] = ty;
        }
        Ok(())
    }
}

/// A graph as a decomposition writes it; new nodes have the label of the node they replace.
pub struct Emitter<'a> {
    /// The graph that grows.
    pub graph: &'a mut Graph,
    /// Label of every new node.
    pub label: &'a str,
}

impl Emit for Emitter<'_> {
    fn ty(&self, v: ValueId) -> &Type {
        self.graph.ty(v)
    }

    fn emit(&mut self, op: Op, inputs: &[ValueId]) -> Result<Vec<ValueId>> {
        self.graph.push(op, inputs, self.label)
    }

    fn emit_regions(
        &mut self,
        op: Op,
        inputs: &[ValueId],
        bodies: &mut [Body<'_>],
    ) -> Result<Vec<ValueId>> {
        let names = op.regions().iter().copied();
        let regions = names.zip(bodies).map(|(name, body)| region(name, self.label, body));
        let regions = regions.collect::<Result<Vec<Graph>>>()?;
        self.graph.push_regions(op, inputs, regions, self.label)
    }
}

/// A region of its own over inputs, with the results that its writer gives.
fn region(name: &str, label: &str, body: &mut Body<'_>) -> Result<Graph> {
    let mut graph = Graph::new(name);
    let mut params = Vec::with_capacity(body.params.len());
    for (i, ty) in body.params.iter().enumerate() {
        params.push(graph.param(ParamKind::Input, &format!("x{i}"), ty.clone()));
    }
    let results = (body.write)(&mut Emitter { graph: &mut graph, label }, &params)?;
    for (i, v) in results.into_iter().enumerate() {
        graph.output(&format!("y{i}"), v);
    }
    Ok(graph)
}
