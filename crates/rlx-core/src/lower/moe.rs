//! `moe_ffn`: a router, its choice of experts, their feed-forwards, and the sum by their shares.
//!
//! Written as its fused operators under either policy: they have parts, so that a target without their
//! kernels runs them too, and no pass needs to find them again.

use super::{Inputs, Lower, Lowering};
use crate::error::Result;
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::GroupedMatMul;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Lower for hir::MoeFfn {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, router) = (i.one()?, i.one()?);
        let (gate, up, down) = (i.one()?, i.one()?, i.one()?);
        let bias = i.maybe(self.route.choice_bias)?;
        let at = |part: &str| format!("{label}_{part}");
        let mut routed = vec![cx.linear(x, (router, None), &at("router"))?];
        routed.extend(bias);
        let routed = cx.g.push(self.route.clone(), &routed, &at("experts"))?;
        let (ids, shares) = (routed[0], routed[1]); // the results of `route`
        let h = cx.g.push1(GroupedMatMul::glu(self.act), &[x, gate, up, ids], &at("gate_up"))?;
        Ok(vec![cx.g.push1(GroupedMatMul::sum(), &[h, down, ids, shares], &at("down"))?])
    }
}
