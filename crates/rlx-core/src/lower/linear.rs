//! `linear` and its kin: one matmul.

use super::{Inputs, Lower, Lowering};
use crate::error::{Error, Result};
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::{Binary, Constant, Epilogue, Map, MatMul, Unary, Zip};
use crate::types::DType;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// A linear layer's weight and bias.
pub(super) type Weights = (ValueId, Option<ValueId>);

impl Lowering<'_> {
    /// `x w^T + b`. The bias is an operand of the matmul under either policy.
    pub(super) fn linear(&mut self, x: ValueId, (w, b): Weights, label: &str) -> Result<ValueId> {
        self.segments(x, &[(w, b)], Epilogue::None, &[], label).map(|y| y[0])
    }

    /// `act(x w^T + b)`: an epilogue when fused, else an operator of its own.
    pub(super) fn linear_act(
        &mut self,
        x: ValueId,
        w: Weights,
        act: Option<Unary>,
        label: &str,
    ) -> Result<ValueId> {
        let Some(f) = act else { return self.linear(x, w, label) };
        if self.direct {
            return self.segments(x, &[w], Epilogue::Map(f), &[], label).map(|y| y[0]);
        }
        let y = self.linear(x, w, label)?;
        self.g.push1(Map { f }, &[y], &format!("{label}_act"))
    }

    /// `x w^T + b + residual`: an epilogue when fused.
    pub(super) fn linear_residual(
        &mut self,
        x: ValueId,
        w: Weights,
        residual: ValueId,
        [label, sum]: [&str; 2],
    ) -> Result<ValueId> {
        if self.direct {
            return self.segments(x, &[w], Epilogue::Add, &[residual], label).map(|y| y[0]);
        }
        let y = self.linear(x, w, label)?;
        self.add(residual, y, sum)
    }

    /// Whether these weights may be segments of one matmul whatever the activations are: all with
    /// a bias or none, all of one element type.
    pub(super) fn alike(&self, weights: &[Weights]) -> bool {
        let key = |w: &Weights| (self.g.ty(w.0).dtype, w.1.is_some());
        weights.iter().all(|w| key(w) == key(&weights[0]))
    }

    /// One matmul of 1..4 weights, all with a bias or none.
    pub(super) fn segments(
        &mut self,
        x: ValueId,
        weights: &[Weights],
        epilogue: Epilogue,
        residual: &[ValueId],
        label: &str,
    ) -> Result<Vec<ValueId>> {
        let biases: Vec<ValueId> = weights.iter().filter_map(|w| w.1).collect();
        let mut operands = vec![x];
        operands.extend(weights.iter().map(|w| w.0));
        operands.extend(&biases);
        operands.extend(residual);
        let op = MatMul {
            segments: weights.len(),
            bias: !biases.is_empty(),
            epilogue,
            ..MatMul::plain()
        };
        self.g.push(op, &operands, label)
    }
}

impl Lower for hir::Linear {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, w) = (i.one()?, i.linear(self.bias)?);
        Ok(vec![cx.linear_act(x, w, self.act, label)?])
    }
}

impl Lower for hir::LinearFused {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, w) = (i.one()?, i.linear(true)?);
        cx.segments(x, &[w], self.act.map_or(Epilogue::None, Epilogue::Map), &[], label)
    }
}

impl Lower for hir::SharedLinearPair {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, w) = (i.one()?, [i.one()?, i.one()?]);
        let b = [i.maybe(self.bias)?, i.maybe(self.bias)?];
        let weights = [(w[0], b[0]), (w[1], b[1])];
        if cx.direct && cx.alike(&weights) {
            return cx.segments(x, &weights, Epilogue::None, &[], label);
        }
        let first = cx.linear(x, weights[0], &format!("{label}_0"))?;
        Ok(vec![first, cx.linear(x, weights[1], &format!("{label}_1"))?])
    }
}

impl Lower for hir::LmHead {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, w) = (i.one()?, i.linear(self.bias)?);
        let logits = cx.linear(x, w, label)?;
        let Some(cap) = self.softcap else { return Ok(vec![logits]) };
        if !(cap > 0.0 && cap.is_finite()) {
            return Err(Error::bad_graph(format!(
                "a softcap of {cap}, expected a positive number"
            )));
        }
        let c = Constant::scalar(DType::F32, cap.into())?;
        let c = cx.g.push1(c, &[], &format!("{label}_softcap"))?;
        let y = cx.g.push1(Zip { f: Binary::Div }, &[logits, c], &format!("{label}_scaled"))?;
        let y = cx.g.push1(Map { f: Unary::Tanh }, &[y], &format!("{label}_tanh"))?;
        Ok(vec![cx.g.push1(Zip { f: Binary::Mul }, &[y, c], &format!("{label}_capped"))?])
    }
}
