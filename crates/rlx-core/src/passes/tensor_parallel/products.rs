//! Products: slices of columns where x is whole, parts of sums where x has slices along k.

use super::{Held, Split};
use crate::error::Result;
use crate::ir::mir::{Node, ValueId};
use crate::ops::{Binary, Epilogue, GroupedEpilogue, GroupedMatMul, Map, MatMul, Zip};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Split<'_> {
    /// Whether products of these weights are better split by columns: a reader goes on with slices, or the weights are
    /// large.
    fn pays(&self, node: &Node, weights: &[ValueId]) -> bool {
        let size = |v: &ValueId| self.g.ty(*v).shape.elements().unwrap_or(0);
        node.outputs.iter().any(|v| self.wanted[v.0 as usize])
            || weights.iter().map(size).fold(0, u64::saturating_add) >= self.ranks.gathered
    }

    fn can_own_all(&self, weights: &[ValueId], axis: usize) -> bool {
        weights.iter().all(|&w| self.can_own(w, axis))
    }

    fn own_all(&mut self, weights: &[ValueId], axis: usize) -> Result<Vec<ValueId>> {
        weights.iter().map(|&w| self.own(w, axis)).collect()
    }

    pub(super) fn matmul(&mut self, op: &MatMul, node: &Node) -> Result<Vec<Held>> {
        let parts = op.parts();
        let weights = &node.inputs[parts.weights..parts.weights + op.segments];
        let biases = parts.biases.map_or(&[][..], |at| &node.inputs[at..at + op.segments]);
        let x = self.held(node.inputs[0])?;
        let last = self.g.ty(node.inputs[0]).shape.rank() - 1;
        let plain = op.norm.is_none() && op.quantize.is_none();
        if x.axis == Some(last) && plain && self.can_own_all(weights, 1) {
            let mut inputs = vec![x.value];
            inputs.extend(self.own_all(weights, 1)?);
            let part = MatMul { bias: false, epilogue: Epilogue::None, ..op.clone() };
            let sums = self.out.push(part, &inputs, &node.label)?;
            let sums = sums.into_iter().map(|y| self.reduced(y, &node.label));
            let sums = sums.collect::<Result<Vec<_>>>()?;
            return self.finished(op, node, sums);
        }
        let columns = self.can_own_all(weights, 0) && self.can_own_all(biases, 0);
        if !columns || !self.pays(node, weights) {
            return self.all_whole(node);
        }
        let mut inputs = vec![self.together(x)?];
        if let Some(at) = parts.norm {
            inputs.push(self.whole(node.inputs[at])?);
        }
        inputs.extend(self.own_all(weights, 0)?);
        inputs.extend(self.own_all(biases, 0)?);
        let residual = parts.residual.map(|at| node.inputs[at]);
        let epilogue = if residual.is_some() { Epilogue::None } else { op.epilogue };
        let y = self.out.push(MatMul { epilogue, ..op.clone() }, &inputs, &node.label)?;
        let slices = y.into_iter().map(|y| Held::slice(y, last));
        match residual {
            None => Ok(slices.collect()),
            Some(residual) => slices.map(|y| self.and_residual(y, residual, &node.label)).collect(),
        }
    }

    fn and_residual(&mut self, y: Held, residual: ValueId, label: &str) -> Result<Held> {
        let residual = self.held(residual)?;
        self.zip(Binary::Add, y, residual, &format!("{label}_residual"))
    }

    /// The bias and the epilogue of products that are whole.
    fn finished(&mut self, op: &MatMul, node: &Node, mut y: Vec<ValueId>) -> Result<Vec<Held>> {
        let (parts, label) = (op.parts(), &node.label);
        for (i, y) in y.iter_mut().enumerate() {
            if let Some(first) = parts.biases {
                let bias = self.held(node.inputs[first + i])?;
                let at = format!("{label}_bias");
                *y = self.zip(Binary::Add, Held::whole(*y), bias, &at)?.value;
            }
        }
        match (op.epilogue, y.as_slice()) {
            (Epilogue::Map(f), _) => {
                let at = format!("{label}_act");
                y.iter().map(|&y| Ok(Held::whole(self.out.push1(Map { f }, &[y], &at)?))).collect()
            }
            (Epilogue::Glu(f), &[gate, up]) => {
                let act = self.out.push1(Map { f }, &[gate], &format!("{label}_act"))?;
                let zip = Zip { f: Binary::Mul };
                Ok(vec![Held::whole(self.out.push1(zip, &[act, up], &format!("{label}_mul"))?)])
            }
            (Epilogue::Add, &[y]) => match parts.residual {
                Some(at) => Ok(vec![self.and_residual(Held::whole(y), node.inputs[at], label)?]),
                None => Ok(vec![Held::whole(y)]),
            },
            _ => Ok(y.into_iter().map(Held::whole).collect()),
        }
    }

    pub(super) fn grouped_matmul(&mut self, op: &GroupedMatMul, node: &Node) -> Result<Vec<Held>> {
        let parts = op.parts();
        let banks = &node.inputs[parts.banks..parts.banks + op.segments];
        let biases = parts.biases.map_or(&[][..], |at| &node.inputs[at..at + op.segments]);
        let x = self.held(node.inputs[0])?;
        let residual = parts.residual.map(|at| node.inputs[at]);
        let epilogue = match op.epilogue {
            GroupedEpilogue::SumAdd => GroupedEpilogue::Sum,
            other => other,
        };
        let plain = GroupedMatMul { epilogue, ..op.clone() };
        let sums = op.epilogue.sums();
        let along_k = x.axis == Some(2) && sums && !op.bias && self.can_own_all(banks, 2);
        let columns = self.can_own_all(banks, 1) && self.can_own_all(biases, 1);
        if !(along_k || columns && self.pays(node, banks)) {
            return self.all_whole(node);
        }
        let axis = if along_k { 2 } else { 1 };
        let mut inputs = vec![if along_k { x.value } else { self.together(x)? }];
        inputs.extend(self.own_all(banks, axis)?);
        inputs.extend(self.own_all(biases, axis)?);
        inputs.push(self.whole(node.inputs[parts.ids])?);
        if let Some(at) = parts.shares {
            inputs.push(self.whole(node.inputs[at])?);
        }
        let y = self.out.push(plain, &inputs, &node.label)?;
        let mut results = Vec::with_capacity(y.len());
        for y in y {
            results.push(match along_k {
                true => Held::whole(self.reduced(y, &node.label)?),
                false => Held::slice(y, if sums { 1 } else { 2 }),
            });
        }
        if let (Some(residual), [y]) = (residual, results.as_slice()) {
            let y = *y;
            return Ok(vec![self.and_residual(y, residual, &node.label)?]);
        }
        Ok(results)
    }
}
