//! The program of each rank of a group: a model's graph over slices of its weights and caches.
//!
//! All ranks have the same graph; which slice of a weight is a rank's own is found when weights are placed
//! ([`Share`](crate::plan::Share)). A walk over the graph says of every value whether each rank has all of it, or a
//! slice along one axis:
//!
//! 1. A product whose x is whole takes slices of its weights' rows, and gives slices of its columns: heads, a
//!    feed-forward's inner units, those of experts.
//! 2. What works by head or element goes on with slices; caches have the rank's heads.
//! 3. A product whose x has slices along k takes the same slices of its weights. Its results are parts of a sum, which
//!    `all_reduce` adds up; biases and residuals come behind that.
//! 4. Any other operator gets whole operands: `all_gather` puts slices together.
//!
//! A weight stays whole on every rank where its axis does not divide, where slices of packed rows would not be whole
//! blocks, where something else reads it too (an embedding that is the head as well), and where its product would be
//! put together at once and it is small.

mod attention;
mod elements;
mod products;

use crate::error::{Code, Error, Result};
use crate::ir::mir::{Graph, Node, Param, ParamKind, ValueId};
use crate::ops::{AllGather, AllReduce, Op, Reshape, Transpose};
use crate::plan::Share;
use crate::target::Ranks;
use crate::types::{Dim, Kind, Shape, Type};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// A value of the ranks' graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    value: ValueId,
    /// The axis along which a rank has a slice; `None`: it has all of it.
    axis: Option<usize>,
}

impl Held {
    fn whole(value: ValueId) -> Held {
        Held { value, axis: None }
    }

    fn slice(value: ValueId, axis: usize) -> Held {
        Held { value, axis: Some(axis) }
    }
}

/// The graph under construction.
struct Split<'g> {
    /// The model's.
    g: &'g Graph,
    ranks: Ranks,
    out: Graph,
    /// What each value of the model's graph is by now.
    held: Vec<Option<Held>>,
    /// Slices that were put together, by their value.
    gathered: BTreeMap<u32, ValueId>,
    /// States that every rank has whole.
    kept: BTreeSet<u32>,
    /// Of each value, whether a reader goes on with slices of it.
    wanted: Vec<bool>,
    users: Vec<Vec<usize>>,
    definers: Vec<Option<usize>>,
}

/// The graph of each rank, of a graph with sizes. Types of states may differ from the model's: a rank's caches have
/// its own heads.
///
/// # Errors
/// `Unsupported` for a model whose key and value heads the ranks do not divide, with the numbers that would do, and for
/// operators that read a cache otherwise than attention does.
pub fn tensor_parallel(g: &Graph, ranks: Ranks) -> Result<Graph> {
    let mut kept = BTreeSet::new();
    loop {
        let mut split = Split {
            g,
            ranks,
            out: Graph::new(&g.name),
            held: vec![None; g.types.len()],
            gathered: BTreeMap::new(),
            wanted: elements::wanted(g),
            users: g.users(),
            definers: g.definers(),
            kept: kept.clone(),
        };
        let walked = split.walk();
        // A cache that something reads or writes whole stays whole on every rank: again, with that in mind.
        if walked.is_ok() || split.kept.len() == kept.len() {
            walked?;
            sweep(&mut split.out);
            return Ok(split.out);
        }
        kept = split.kept;
    }
}

/// Removes what became of weights that are read in slices only.
fn sweep(g: &mut Graph) {
    let mut live = vec![false; g.types.len()];
    for v in g.outputs.iter().map(|o| o.value).chain(g.final_states().into_iter().map(|s| s.1)) {
        live[v.0 as usize] = true;
    }
    let mut gone = vec![false; g.nodes.len()];
    for (node, gone) in g.nodes.iter().zip(&mut gone).rev() {
        *gone = !node.outputs.iter().any(|v| live[v.0 as usize]);
        if !*gone {
            node.inputs.iter().for_each(|v| live[v.0 as usize] = true);
        }
    }
    super::remove_nodes(g, &gone);
    g.params.retain(|p| p.kind != ParamKind::Weight || live[p.value.0 as usize]);
}

impl Split<'_> {
    fn walk(&mut self) -> Result<()> {
        let g = self.g;
        // Inputs are the host's: all of them, in their order.
        for p in g.params.iter().filter(|p| p.kind == ParamKind::Input) {
            self.held(p.value)?;
        }
        for node in &g.nodes {
            let place = |e: Error| if e.at.is_empty() { e.at(node.label.clone()) } else { e };
            self.node(node).map_err(place)?;
        }
        for o in &g.outputs {
            let value = self.whole(o.value)?;
            self.out.output(&o.name, value);
        }
        Ok(())
    }

    /// The state that a value is a version of.
    fn state_of(&self, v: ValueId) -> ValueId {
        let Some(at) = self.definers[v.0 as usize] else { return v };
        let node = &self.g.nodes[at];
        let from = |&&(_, result): &&(usize, usize)| node.outputs.get(result) == Some(&v);
        match node.op.writes().iter().find(from) {
            Some(&(operand, _)) => self.state_of(node.inputs[operand]),
            None => v,
        }
    }

    /// Keeps a cache whole from the beginning on; the error that ends this walk.
    fn keep(&mut self, cache: ValueId) -> Error {
        let state = self.state_of(cache);
        self.kept.insert(state.0);
        Error::new(Code::Unsupported, "an operator needs all of a cache that ranks share")
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        let results = match &node.op {
            Op::MatMul(op) => self.matmul(op, node)?,
            Op::GroupedMatMul(op) => self.grouped_matmul(op, node)?,
            Op::Map(_)
            | Op::Zip(_)
            | Op::Cast(_)
            | Op::Clamp(_)
            | Op::Compare(_)
            | Op::Select(_) => self.elementwise(node)?,
            Op::Reshape(_) => self.reshape(node)?,
            Op::Slice(op) => self.first(node, |axis| axis != op.axis)?,
            Op::RmsNorm(_) => self.by_rows(node)?,
            Op::TakeRows(_) => self.by_columns(node)?,
            Op::Rope(op) => self.rope(op, node)?,
            Op::KvWrite(_) => self.kv_write(node)?,
            Op::RopeKvWrite(_) => self.rope_kv_write(node)?,
            Op::Attention(op) => self.attention(op, node)?,
            _ => self.all_whole(node)?,
        };
        for (v, held) in node.outputs.iter().zip(results) {
            self.held[v.0 as usize] = Some(held);
        }
        Ok(())
    }

    /// What a value is, as any rank has it; a parameter that was not read before is whole.
    fn held(&mut self, v: ValueId) -> Result<Held> {
        if let Some(held) = self.held.get(v.0 as usize).copied().flatten() {
            return Ok(held);
        }
        let p = self.g.params.iter().find(|p| p.value == v);
        let p = p.ok_or_else(|| Error::bad_graph("an operator reads what nothing makes"))?;
        let held = Held::whole(self.out.param_once(p.kind, &p.name, self.g.ty(v).clone())?);
        self.held[v.0 as usize] = Some(held);
        Ok(held)
    }

    /// All of a value, on every rank.
    fn whole(&mut self, v: ValueId) -> Result<ValueId> {
        let held = self.held(v)?;
        if held.axis.is_some() && self.g.ty(v).kind == Kind::State {
            return Err(self.keep(v));
        }
        self.together(held)
    }

    /// Slices put together.
    fn together(&mut self, held: Held) -> Result<ValueId> {
        let Held { value, axis: Some(axis) } = held else { return Ok(held.value) };
        if let Some(&whole) = self.gathered.get(&value.0) {
            return Ok(whole);
        }
        let ty = self.out.ty(value).clone();
        let label = self.label(value, "gather");
        let ranks = Dim::from(self.ranks.count);
        let mut dims = ty.shape.0.clone();
        dims[axis] = dims[axis].mul(&ranks)?;
        let outer = product(&ty.shape.0[..axis])?;
        let inner = product(&ty.shape.0[axis..])?;
        let all = AllGather { ranks: self.ranks.count };
        let mut y = self.out.push1(all, &[value], &label)?;
        if outer.as_static() != Some(1) {
            let by_rank = Shape(vec![ranks, outer, inner]);
            y = self.out.push1(Reshape { dims: by_rank }, &[y], &label)?;
            y = self.out.push1(Transpose { perm: vec![1, 0, 2] }, &[y], &label)?;
        }
        if self.out.ty(y).shape.0 != dims {
            y = self.out.push1(Reshape { dims: Shape(dims) }, &[y], &label)?;
        }
        self.gathered.insert(value.0, y);
        Ok(y)
    }

    /// The sum of the ranks' values.
    fn reduced(&mut self, v: ValueId, label: &str) -> Result<ValueId> {
        let op = AllReduce { ranks: self.ranks.count };
        self.out.push1(op, &[v], &format!("{label}_sum"))
    }

    /// A label of what follows a value.
    fn label(&self, v: ValueId, what: &str) -> String {
        let maker = self.out.nodes.iter().rev().find(|n| n.outputs.contains(&v));
        maker.map_or_else(|| what.into(), |n| format!("{}_{what}", n.label))
    }

    /// The operator over whole operands.
    fn all_whole(&mut self, node: &Node) -> Result<Vec<Held>> {
        let inputs = node.inputs.iter().map(|&v| self.whole(v)).collect::<Result<Vec<_>>>()?;
        let y =
            self.out.push_regions(node.op.clone(), &inputs, node.regions.clone(), &node.label)?;
        Ok(y.into_iter().map(Held::whole).collect())
    }

    /// Whether a size is as many for each rank.
    fn divides(&self, size: &Dim) -> bool {
        size.as_static().is_some_and(|n| n.is_multiple_of(self.ranks.count))
    }

    /// A size's share.
    fn part(&self, size: &Dim) -> Option<u64> {
        size.as_static()
            .filter(|n| n.is_multiple_of(self.ranks.count))
            .map(|n| n / self.ranks.count)
    }

    /// The type of a slice, if every rank has whole blocks of it.
    fn slice_type(&self, ty: &Type, axis: usize) -> Option<Type> {
        let mut slice = ty.clone();
        let own = self.part(ty.shape.0.get(axis)?)?;
        slice.shape.0[axis] = Dim::from(own);
        (own > 0 && slice.bytes().is_ok()).then_some(slice)
    }

    /// The weight that nothing but products, and what only changes its elements, reads.
    fn is_apart(&self, v: ValueId) -> bool {
        !self.g.is_output(v)
            && self.users[v.0 as usize].iter().all(|&at| {
                let node = &self.g.nodes[at];
                match &node.op {
                    Op::MatMul(op) => {
                        let parts = op.parts();
                        let norm = parts.norm.map(|at| node.inputs[at]);
                        node.inputs[0] != v && norm != Some(v)
                    }
                    Op::GroupedMatMul(_) => node.inputs[0] != v,
                    Op::Attention(_) => true,
                    Op::Cast(_) | Op::Map(_) | Op::Slice(_) => {
                        node.outputs.iter().all(|&y| self.is_apart(y))
                    }
                    _ => false,
                }
            })
    }

    /// Whether [`own`](Self::own) gives a slice.
    fn can_own(&self, v: ValueId, axis: usize) -> bool {
        let fits = self.slice_type(self.g.ty(v), axis).is_some() && self.is_apart(v);
        fits && match self.definers[v.0 as usize] {
            None => self.g.params.iter().any(|p| p.value == v && p.kind == ParamKind::Weight),
            Some(at) => {
                let node = &self.g.nodes[at];
                match &node.op {
                    Op::Cast(_) | Op::Map(_) => self.can_own(node.inputs[0], axis),
                    Op::Slice(_) => self.window(node).is_some(),
                    _ => false,
                }
            }
        }
    }

    /// The bytes of a tensor that a node cuts out, of its first axis: the tensor, the first byte, how many.
    fn window(&self, node: &Node) -> Option<(&Param, u64, u64)> {
        let Op::Slice(op) = &node.op else { return None };
        let x = *node.inputs.first()?;
        let p = self.g.params.iter().find(|p| p.value == x && p.kind == ParamKind::Weight)?;
        let bytes = self.g.ty(*node.outputs.first()?).bytes().ok()?;
        let (start, len) = (op.start.as_static()?, op.len.as_static()?);
        let rows = op.axis == 0 && op.step == 1 && len > 0;
        let from = (bytes / len.max(1)).checked_mul(start)?;
        rows.then_some((p, from, bytes))
    }

    /// A rank's slice of a weight, or of what is made of its elements one by one.
    fn own(&mut self, v: ValueId, axis: usize) -> Result<ValueId> {
        let g = self.g;
        if let Some(at) = self.definers[v.0 as usize] {
            let node = &g.nodes[at];
            if let Some((p, from, bytes)) = self.window(node) {
                let name = p.name.clone();
                return self.own_param(&name, v, axis, Some((from, bytes)));
            }
            let x = self.own(node.inputs[0], axis)?;
            return self.out.push1(node.op.clone(), &[x], &node.label);
        }
        let p = g.params.iter().find(|p| p.value == v);
        let p = p.ok_or_else(|| Error::internal("a slice of what is no weight"))?;
        self.own_param(&p.name, v, axis, None)
    }

    /// The weight that is a rank's slice of value `v`, a tensor or the bytes `within` one.
    fn own_param(
        &mut self,
        tensor: &str,
        v: ValueId,
        axis: usize,
        within: Option<(u64, u64)>,
    ) -> Result<ValueId> {
        let ty = self.slice_type(self.g.ty(v), axis);
        let ty = ty.ok_or_else(|| Error::internal(format!("{tensor} has no such slices")))?;
        let runs = product(&ty.shape.0[..axis])?.as_static().unwrap_or(1);
        let share = Share { tensor, ranks: self.ranks.count, runs, within };
        self.out.param_once(ParamKind::Weight, &share.name(), ty)
    }
}

fn product(dims: &[Dim]) -> Result<Dim> {
    dims.iter().try_fold(Dim::from(1u64), |n, d| n.mul(d))
}
