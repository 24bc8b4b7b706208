//! `dit_block`: a diffusion transformer's layer, whose norms and residuals a condition controls.

use super::{Inputs, Lower, Lowering};
use crate::error::Result;
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::{AdaNorm, Binary, GatedResidual, Map, NormKind, Sdpa, Unary, Zip};
use crate::types::Dim;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Lowering<'_> {
    /// `x + gate * y`.
    fn gated_residual(
        &mut self,
        x: ValueId,
        y: ValueId,
        gate: ValueId,
        label: &str,
    ) -> Result<ValueId> {
        if self.direct {
            return self.g.push1(GatedResidual, &[x, y, gate], label);
        }
        let y = self.g.push1(Zip { f: Binary::Mul }, &[y, gate], &format!("{label}_gate"))?;
        self.add(x, y, label)
    }
}

impl Lower for hir::DitBlock {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let b = self.bias;
        let (x, condition, modulation) = (i.one()?, i.one()?, i.linear(b)?);
        let (qkv, o) = ([i.linear(b)?, i.linear(b)?, i.linear(b)?], i.linear(b)?);
        let (first, second) = (i.linear(b)?, i.linear(b)?);
        let at = |part: &str| format!("{label}_{part}");
        let [batch, d] = cx.dims("the condition of dit_block", condition)?;

        let c = cx.g.push1(Map { f: Unary::Silu }, &[condition], &at("condition"))?;
        let c = cx.linear(c, modulation, &at("modulation"))?;
        let c = cx.reshape(c, vec![batch, Dim::from(6u64), d], &at("modulations"))?;
        let mut part = |n: u64, name: &str| cx.slice(c, 1, n, Dim::from(1u64), &at(name));
        let [shift1, scale1, gate1] =
            [part(0, "attn_shift")?, part(1, "attn_scale")?, part(2, "attn_gate")?];
        let [shift2, scale2, gate2] =
            [part(3, "ffn_shift")?, part(4, "ffn_scale")?, part(5, "ffn_gate")?];

        let norm = AdaNorm { norm: NormKind::LayerNorm, eps: self.eps };
        let h = cx.g.push1(norm.clone(), &[x, scale1, shift1], &at("attn_norm"))?;
        let qkv = cx.qkv(h, &qkv, &at("attn"))?;
        let op = Sdpa::new(self.heads, self.head_dim);
        let a = cx.sdpa(qkv, (op, Vec::new()), o, &at("attn"))?;
        let x = cx.gated_residual(x, a, gate1, &at("attn_residual"))?;
        let h = cx.g.push1(norm, &[x, scale2, shift2], &at("ffn_norm"))?;
        let h = cx.linear_act(h, first, Some(self.act), &at("ffn_up"))?;
        let f = cx.linear(h, second, &at("ffn_down"))?;
        Ok(vec![cx.gated_residual(x, f, gate2, &at("ffn_residual"))?])
    }
}
