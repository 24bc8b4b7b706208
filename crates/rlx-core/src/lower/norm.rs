//! Norms and residual sums.

use super::{Inputs, Lower, Lowering};
use crate::error::Result;
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::{Binary, RmsNorm, Zip};
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
        let sum = cx.add(x, residual, &format!("{label}_sum"))?;
        Ok(vec![cx.rms_norm(sum, w, self.eps, label)?, sum])
    }
}
