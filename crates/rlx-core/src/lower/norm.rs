//! Norms and residual sums.

use super::{Inputs, Lower, Lowering};
use crate::error::Result;
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::{Binary, LayerNorm, ResidualLayerNorm, ResidualRmsNorm, RmsNorm, Zip};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Lowering<'_> {
    pub(super) fn add(&mut self, a: ValueId, b: ValueId, label: &str) -> Result<ValueId> {
        self.g.push1(Zip { f: Binary::Add }, &[a, b], label)
    }

    pub(super) fn rms_norm(
        &mut self,
        x: ValueId,
        weight: ValueId,
        eps: f32,
        label: &str,
    ) -> Result<ValueId> {
        self.g.push1(RmsNorm { eps }, &[x, weight], label)
    }
}

impl Lower for hir::Add {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (a, b) = (i.one()?, i.one()?);
        Ok(vec![cx.add(a, b, label)?])
    }
}

impl Lower for hir::RmsNorm {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, w) = (i.one()?, i.one()?);
        Ok(vec![cx.rms_norm(x, w, self.eps, label)?])
    }
}

impl Lower for hir::ResidualRmsNorm {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, residual, w) = (i.one()?, i.one()?, i.one()?);
        if cx.direct {
            let op = ResidualRmsNorm { eps: self.eps, bias: false };
            let y = cx.g.push(op, &[x, residual, w], label)?;
            return Ok(y.into_iter().rev().collect());
        }
        let sum = cx.add(x, residual, &format!("{label}_sum"))?;
        Ok(vec![cx.rms_norm(sum, w, self.eps, label)?, sum])
    }
}

impl Lower for hir::LayerNorm {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let mut operands = vec![i.one()?, i.one()?];
        operands.extend(i.maybe(self.bias)?);
        cx.g.push(LayerNorm { eps: self.eps, bias: self.bias }, &operands, label)
    }
}

impl Lower for hir::ResidualLayerNorm {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, residual, scale) = (i.one()?, i.one()?, i.one()?);
        let bias = i.maybe(self.bias)?;
        if cx.direct {
            let op = ResidualLayerNorm { eps: self.eps, bias: false, shift: self.bias };
            let mut operands = vec![x, residual, scale];
            operands.extend(bias);
            let y = cx.g.push(op, &operands, label)?;
            return Ok(y.into_iter().rev().collect());
        }
        let sum = cx.add(x, residual, &format!("{label}_sum"))?;
        let mut operands = vec![sum, scale];
        operands.extend(bias);
        let op = LayerNorm { eps: self.eps, bias: self.bias };
        Ok(vec![cx.g.push1(op, &operands, label)?, sum])
    }
}
