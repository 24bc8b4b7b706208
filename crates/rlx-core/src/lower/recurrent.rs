//! What has a state of its own beside caches: `gated_delta_net`, `delta_net`, `causal_conv1d`.
//!
//! Each is written as its operator under either policy: that has parts, so that a target without its kernel runs
//! it too, and no pass needs to find it again.

use super::{Inputs, Lower, Lowering};
use crate::error::Result;
use crate::ir::hir;
use crate::ir::mir::{ParamKind, ValueId};
use crate::ops::{CausalConv1d, DeltaNet, GatedDeltaNet};
use alloc::vec;
use alloc::vec::Vec;

impl Lower for hir::GatedDeltaNet {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let mut operands = vec![i.one()?, i.one()?, i.one()?, i.one()?, i.one()?];
        if self.carry {
            let (name, ty) = self.state();
            operands.push(cx.g.param_once(ParamKind::State, &name, ty)?);
            operands.push(cx.control()?);
        }
        let op =
            GatedDeltaNet { state_size: self.state_size, carry: self.carry, tiled: self.tiled };
        let y = cx.g.push(op, &operands, label)?;
        // What follows is the state's next version, which nothing in this step reads.
        Ok(y.into_iter().take(1).collect())
    }
}

impl Lower for hir::DeltaNet {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let mut operands = vec![i.one()?, i.one()?, i.one()?, i.one()?, i.one()?];
        let (name, ty) = self.state();
        operands.push(cx.g.param_once(ParamKind::State, &name, ty)?);
        operands.push(cx.control()?);
        let op = DeltaNet {
            key_heads: self.key_heads,
            state_size: self.state_size,
            eps: self.eps,
            tiled: self.tiled,
        };
        let y = cx.g.push(op, &operands, label)?;
        Ok(y.into_iter().take(1).collect())
    }
}

impl Lower for hir::CausalConv1d {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, w) = (i.one()?, i.one()?);
        let (name, ty) = self.state();
        let state = cx.g.param_once(ParamKind::State, &name, ty)?;
        let ctl = cx.control()?;
        let y = cx.g.push(
            CausalConv1d { act: self.act, gated: self.gated },
            &[x, w, state, ctl],
            label,
        )?;
        // What follows is the state's next version, which nothing in this step reads.
        Ok(y.into_iter().take(1).collect())
    }
}
