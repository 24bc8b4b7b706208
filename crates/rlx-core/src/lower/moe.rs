//! `moe_ffn`: a router, its choice of experts, their feed-forwards, and the sum by their shares.
//!
//! Written as its fused operators under either policy: they have parts, so that a target without their
//! kernels runs them too, and no pass needs to find them again.

use super::{Inputs, Lower, Lowering};
use crate::error::Result;
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::{Binary, Gather, GroupedEpilogue, GroupedMatMul, Zip};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Lower for hir::MoeFfn {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let x = i.one()?;
        let scored = i.maybe(self.scored)?.unwrap_or(x);
        let router = i.linear(self.bias)?;
        let (gate, up) = (i.linear(self.bias)?, i.linear(self.bias)?);
        let down = i.linear(self.bias)?;
        let (choice_bias, weight) = (i.maybe(self.route.choice_bias)?, i.maybe(self.weighted)?);
        let at = |part: &str| format!("{label}_{part}");
        let mut routed = vec![cx.linear(scored, router, &at("router"))?];
        routed.extend(choice_bias);
        let routed = cx.g.push(self.route.clone(), &routed, &at("experts"))?;
        let (ids, mut shares) = (routed[0], routed[1]); // the results of `route`
        if let Some(weight) = weight {
            let own = cx.g.push1(Gather { axis: 0 }, &[weight, ids], &at("weights"))?;
            let op = Zip { f: Binary::Mul };
            shares = cx.g.push1(op, &[shares, own], &at("weighted_shares"))?;
        }
        let epilogue = match self.limit {
            Some(limit) => GroupedEpilogue::LimitedGlu(self.act, limit),
            None => GroupedEpilogue::Glu(self.act),
        };
        let glu = GroupedMatMul { segments: 2, bias: self.bias, epilogue };
        let mut inputs = vec![x, gate.0, up.0];
        inputs.extend([gate.1, up.1].into_iter().flatten());
        inputs.push(ids);
        let h = cx.g.push1(glu, &inputs, &at("gate_up"))?;
        let sum = GroupedMatMul { bias: self.bias, ..GroupedMatMul::sum() };
        let mut inputs = vec![h, down.0];
        inputs.extend(down.1);
        inputs.extend([ids, shares]);
        Ok(vec![cx.g.push1(sum, &inputs, &at("down"))?])
    }
}
