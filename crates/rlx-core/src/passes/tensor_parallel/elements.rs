//! What goes on with slices: functions of elements, rows and columns, and the same bytes under another shape.

use super::{Held, Split, product};
use crate::error::Result;
use crate::ir::mir::{Graph, Node, ValueId};
use crate::ops::{Binary, Cast, Op, Reshape, Zip};
use crate::types::Dim;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Heads of a cache.
fn heads(g: &Graph, cache: ValueId) -> u64 {
    g.ty(cache).shape.0.first().and_then(Dim::as_static).unwrap_or(0)
}

/// Of each value, whether some reader would go on with slices of it, along its last axis or that of heads.
pub(super) fn wanted(g: &Graph) -> Vec<bool> {
    let mut wanted = vec![false; g.types.len()];
    for node in g.nodes.iter().rev() {
        let result = node.outputs.iter().any(|v| wanted[v.0 as usize]);
        for (k, v) in node.inputs.iter().enumerate() {
            wanted[v.0 as usize] |= match &node.op {
                Op::MatMul(op) => k == 0 && op.norm.is_none() && op.quantize.is_none(),
                Op::GroupedMatMul(op) => k == 0 && op.epilogue.sums() && g.ty(*v).shape.rank() == 3,
                Op::Rope(_) | Op::Attention(_) => k == 0,
                Op::KvWrite(_) => k == 1 && heads(g, node.inputs[0]) > 1,
                Op::RopeKvWrite(_) => k == 0 || k < 3 && heads(g, node.inputs[4]) > 1,
                Op::Map(_) | Op::Zip(_) | Op::Cast(_) | Op::Clamp(_) => result,
                Op::Compare(_) | Op::Select(_) | Op::Reshape(_) | Op::Slice(_) => result,
                Op::RmsNorm(_) => k == 0 && result && g.ty(*v).shape.rank() > 2,
                Op::TakeRows(_) => k == 0 && result,
                _ => false,
            };
        }
    }
    wanted
}

impl Split<'_> {
    /// A function of elements: slices along one axis where all operands have them, or repeat along it.
    pub(super) fn elementwise(&mut self, node: &Node) -> Result<Vec<Held>> {
        let inputs = node.inputs.iter().map(|&v| self.held(v)).collect::<Result<Vec<_>>>()?;
        let Some(axis) = self.common_axis(node, &inputs) else { return self.all_whole(node) };
        let rank = self.g.ty(node.outputs[0]).shape.rank();
        let mut own = Vec::with_capacity(inputs.len());
        for (&v, held) in node.inputs.iter().zip(inputs) {
            own.push(match (held.axis, self.along(v, axis, rank)) {
                (None, Some(at)) => self.own(v, at)?,
                _ => held.value,
            });
        }
        let y = self.out.push(node.op.clone(), &own, &node.label)?;
        Ok(y.into_iter().map(|y| Held::slice(y, axis)).collect())
    }

    /// The axis of a value that is axis `axis` of a result of `rank` axes, if the value does not repeat along it.
    fn along(&self, v: ValueId, axis: usize, rank: usize) -> Option<usize> {
        let dims = &self.g.ty(v).shape.0;
        let at = (axis + dims.len()).checked_sub(rank)?;
        dims.get(at).filter(|d| d.as_static() != Some(1)).map(|_| at)
    }

    /// The axis along which every operand has slices, repeats, or is a weight.
    fn common_axis(&self, node: &Node, inputs: &[Held]) -> Option<usize> {
        let ty = self.g.ty(*node.outputs.first()?);
        let rank = ty.shape.rank();
        let of_result = |(v, held): (&ValueId, &Held)| {
            held.axis.map(|axis| axis + rank - self.g.ty(*v).shape.rank())
        };
        let axis = node.inputs.iter().zip(inputs).find_map(of_result)?;
        let fits = node.inputs.iter().zip(inputs).all(|(v, held)| match held.axis {
            Some(_) => of_result((v, held)) == Some(axis) && self.along(*v, axis, rank).is_some(),
            None => self.along(*v, axis, rank).is_none_or(|at| self.can_own(*v, at)),
        });
        (fits && !ty.dtype.is_block()).then_some(axis)
    }

    /// `f(a, b)` of what is there already, a slice where one of both is.
    pub(super) fn zip(&mut self, f: Binary, a: Held, b: Held, label: &str) -> Result<Held> {
        let axis = if a.axis == b.axis { a.axis } else { None };
        let (a, b) = match axis {
            Some(_) => (a.value, b.value),
            None => (self.together(a)?, self.together(b)?),
        };
        let to = self.out.ty(a).dtype;
        let b = match self.out.ty(b).dtype == to {
            true => b,
            false => self.out.push1(Cast { to }, &[b], &format!("{label}_cast"))?,
        };
        Ok(Held { value: self.out.push1(Zip { f }, &[a, b], label)?, axis })
    }

    /// The same elements under another shape: slices stay where as many elements stand before and behind their axis.
    pub(super) fn reshape(&mut self, node: &Node) -> Result<Vec<Held>> {
        let held = self.held(node.inputs[0])?;
        let (from, to) = (self.g.ty(node.inputs[0]), self.g.ty(node.outputs[0]));
        let Some(axis) = held.axis else { return self.all_whole(node) };
        let before = product(&from.shape.0[..axis])?;
        let mut at = None;
        for (i, d) in to.shape.0.iter().enumerate() {
            if self.divides(d) && d.as_static() != Some(0) && product(&to.shape.0[..i])? == before {
                at = Some(i);
                break;
            }
        }
        let Some((at, own)) = at.and_then(|at| Some((at, self.part(&to.shape.0[at])?))) else {
            return self.all_whole(node);
        };
        let mut dims = to.shape.clone();
        dims.0[at] = Dim::from(own);
        let y = self.out.push1(Reshape { dims }, &[held.value], &node.label)?;
        Ok(vec![Held::slice(y, at)])
    }

    /// What works on the last axis of its first operand alone.
    pub(super) fn by_rows(&mut self, node: &Node) -> Result<Vec<Held>> {
        let last = self.g.ty(node.inputs[0]).shape.rank().saturating_sub(1);
        self.first(node, |axis| axis < last)
    }

    /// What works on the rows of its first operand, whose columns stay apart.
    pub(super) fn by_columns(&mut self, node: &Node) -> Result<Vec<Held>> {
        self.first(node, |axis| axis == 1)
    }

    /// The operator over slices of its first operand and all of the others, where `goes_on` says so of their axis.
    pub(super) fn first(
        &mut self,
        node: &Node,
        goes_on: impl Fn(usize) -> bool,
    ) -> Result<Vec<Held>> {
        let x = self.held(node.inputs[0])?;
        let Some(axis) = x.axis.filter(|&axis| goes_on(axis)) else { return self.all_whole(node) };
        let mut inputs = vec![x.value];
        for &v in &node.inputs[1..] {
            inputs.push(self.whole(v)?);
        }
        let y = self.out.push(node.op.clone(), &inputs, &node.label)?;
        Ok(y.into_iter().map(|y| Held::slice(y, axis)).collect())
    }
}
