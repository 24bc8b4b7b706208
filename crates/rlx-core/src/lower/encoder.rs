//! Attention without a cache: `encoder_attention`, `cross_attention`.

use super::linear::Weights;
use super::{Inputs, Lower, Lowering};
use crate::error::Result;
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::{Epilogue, Mask, Sdpa};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Lowering<'_> {
    /// q, k and v of one input: segments of one matmul when fused.
    pub(super) fn qkv(
        &mut self,
        x: ValueId,
        w: &[Weights; 3],
        label: &str,
    ) -> Result<[ValueId; 3]> {
        let parts = ["q", "k", "v"].map(|part| format!("{label}_{part}"));
        if self.direct && self.alike(w) {
            let y = self.segments(x, w, Epilogue::None, &[], &parts[0])?;
            return Ok([y[0], y[1], y[2]]);
        }
        let q = self.linear(x, w[0], &parts[0])?;
        let k = self.linear(x, w[1], &parts[1])?;
        Ok([q, k, self.linear(x, w[2], &parts[2])?])
    }

    /// Attention of projected q, k and v, and the projection of its result.
    pub(super) fn sdpa(
        &mut self,
        qkv: [ValueId; 3],
        (op, mask): (Sdpa, Option<ValueId>),
        o: Weights,
        label: &str,
    ) -> Result<ValueId> {
        let mut operands = Vec::from(qkv);
        operands.extend(mask);
        let a = self.g.push1(op, &operands, label)?;
        self.linear(a, o, &format!("{label}_o"))
    }
}

/// Whether the mask is a tensor.
fn masked(mask: Mask) -> bool {
    matches!(mask, Mask::Custom | Mask::Bias)
}

impl hir::EncoderAttention {
    /// The operator between the projections.
    pub(super) fn op(&self) -> Sdpa {
        Sdpa {
            kv_heads: self.kv_heads,
            mask: self.mask,
            scale: self.scale,
            softcap: self.softcap,
            ..Sdpa::new(self.heads, self.head_dim)
        }
    }
}

impl Lower for hir::EncoderAttention {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let b = self.bias;
        let (x, qkv) = (i.one()?, [i.linear(b)?, i.linear(b)?, i.linear(b)?]);
        let (o, mask) = (i.linear(b)?, i.maybe(masked(self.mask))?);
        let qkv = cx.qkv(x, &qkv, label)?;
        Ok(vec![cx.sdpa(qkv, (self.op(), mask), o, label)?])
    }
}

impl Lower for hir::CrossAttention {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let b = self.bias;
        let (x, memory) = (i.one()?, i.one()?);
        let (q, kv, o) = (i.linear(b)?, [i.linear(b)?, i.linear(b)?], i.linear(b)?);
        let mask = i.maybe(masked(self.mask))?;
        let op = Sdpa {
            kv_heads: self.kv_heads,
            mask: self.mask,
            ..Sdpa::new(self.heads, self.head_dim)
        };
        let q = cx.linear(x, q, &format!("{label}_q"))?;
        let kv = match cx.direct && cx.alike(&kv) {
            true => cx.segments(memory, &kv, Epilogue::None, &[], &format!("{label}_kv"))?,
            false => {
                let k = cx.linear(memory, kv[0], &format!("{label}_k"))?;
                vec![k, cx.linear(memory, kv[1], &format!("{label}_v"))?]
            }
        };
        Ok(vec![cx.sdpa([q, kv[0], kv[1]], (op, mask), o, label)?])
    }
}
